/**
 * The added tokens as engines have them: those that `tokenizer.json` lists, and those of `tokenizer_config.json`, which transformers adds to
 * them. A token that the vocabulary has keeps that id, and every other one takes the next that is free. What the files say of ids is not looked
 * at: a list with a gap in it, or in another order, is numbered anew.
 */
import { specialNamesOf } from './special-names.js'
import type { AddedTokenEntry, TokenizerConfigFile, TokenizerFile } from './tokenizer-file.js'
import { specialTokenText } from './tokenizer-file.js'

type Described = Omit<AddedTokenEntry, 'id'>

/** Of several that are written alike the last one says how the token is found; one that is empty is none. */
export function numberAddedTokens(file: TokenizerFile, config: TokenizerConfigFile = {}): AddedTokenEntry[] {
  const { known, size } = idsOf(file.model.vocab)
  const listed = file.added_tokens ?? []
  let next = size // also where the vocabulary has gaps
  const numbered = new Map<string, AddedTokenEntry>()
  for (const token of [...listed, ...tokensOfConfig(config, listed)]) {
    if (token.content === '') continue
    const id = numbered.get(token.content)?.id ?? known(token.content) ?? next++
    numbered.set(token.content, { ...token, id })
  }
  return [...numbered.values()]
}

/** In the order of their ids there, and then the special tokens that it names beside them. */
function tokensOfConfig(config: TokenizerConfigFile, listed: readonly Described[]): Described[] {
  const { named, extra } = specialNamesOf(config)
  const specials = new Set(Object.values(named).map(specialTokenText))
  const decoder = Object.entries(recordOf(config['added_tokens_decoder'])).sort(([a], [b]) => Number(a) - Number(b))
  const described = decoder.flatMap(([, entry]) => describe(entry, specials))
  const there = new Set([...listed, ...described].map(({ content }) => content))
  const bare = new Set<string>()
  const beside = [...Object.values(named), ...extra].filter((entry) => {
    // A bare text is added once, however often it is named.
    if (typeof entry !== 'string') return !there.has(specialTokenText(entry)!)
    return !there.has(entry) && bare.size < bare.add(entry).size
  })
  return [...described, ...beside.flatMap((entry) => describe(entry, specials))]
}

/** Those with a name are special whatever is said of them, and so is a bare text. */
function describe(entry: unknown, specials: ReadonlySet<string | undefined>): Described[] {
  const content = specialTokenText(entry)
  if (content === undefined) return []
  const flags = recordOf(entry)
  const special = typeof entry === 'string' || specials.has(content) || flags['special'] === true
  return [
    {
      content,
      special,
      single_word: flags['single_word'] === true,
      lstrip: flags['lstrip'] === true,
      rstrip: flags['rstrip'] === true,
      normalized: typeof flags['normalized'] === 'boolean' ? flags['normalized'] : !special,
    },
  ]
}

function recordOf(value: unknown): Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null ? (value as Record<string, unknown>) : {}
}

/** A unigram model has a list of pieces, whose places are their ids. */
function idsOf(vocab: unknown): { readonly known: (content: string) => number | undefined; readonly size: number } {
  if (Array.isArray(vocab)) {
    const places = new Map(
      vocab.map((piece: unknown, id) => [Array.isArray(piece) ? (piece[0] as unknown) : piece, id]),
    )
    return { known: (content) => places.get(content), size: vocab.length }
  }
  const ids = vocab as Readonly<Record<string, number>>
  const known = (content: string): number | undefined => (Object.hasOwn(ids, content) ? ids[content] : undefined)
  return { known, size: Object.keys(ids).length }
}
