// Goal: the special tokens of a model's files are named, numbered and found as transformers has them.
// Method: 150 folders made at random, most of them as older tools wrote them, and what transformers made of each.
import { readFileSync } from 'node:fs'
import { expect, it } from 'vitest'
import { numberAddedTokens } from './added-ids.js'
import { specialNamesOf, withOlderFiles } from './special-names.js'
import type { AddedTokenEntry, TokenizerConfigFile, TokenizerFile } from './tokenizer-file.js'
import { specialTokenText } from './tokenizer-file.js'

interface Folder {
  readonly config: TokenizerConfigFile
  readonly map?: Readonly<Record<string, unknown>>
  readonly added?: Readonly<Record<string, number>>
  readonly listed: readonly AddedTokenEntry[]
  /** Id, text and flags. */
  readonly wanted: readonly (readonly [number, string, ...string[]])[]
  /** By name, as templates see them. */
  readonly names: Readonly<Record<string, string>>
}

const recorded = JSON.parse(
  readFileSync(new URL('../../../test/fixtures/transformers/special-names.json', import.meta.url), 'utf8'),
) as { readonly folders: readonly Folder[] }

/** One of them is written like an added one. */
const size = 1056
const vocab = Object.fromEntries(Array.from({ length: size }, (_, id) => [id === 258 ? 'in' : `token ${id}`, id]))
/** Whether a token is special changes no id. */
const flags = ['single_word', 'lstrip', 'rstrip', 'normalized'] as const

it.each(recorded.folders.map((folder, index) => ({ index, ...folder })))('folder $index', (folder) => {
  const { config, map, added, listed, wanted, names } = folder
  const settled = withOlderFiles(config, { map, added, listed })
  const file = { added_tokens: listed, model: { vocab } } as unknown as TokenizerFile
  const tokens = numberAddedTokens(file, settled).sort((a, b) => a.id - b.id)
  const shown = tokens.map((token) => [token.id, token.content, ...flags.filter((flag) => token[flag])])
  expect(shown).toEqual(wanted.map((token) => token.filter((word) => word !== 'special')))
  const { named } = specialNamesOf(settled)
  expect(Object.fromEntries(Object.entries(named).map(([name, it]) => [name, specialTokenText(it)]))).toEqual(names)
})
