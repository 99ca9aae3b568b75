/**
 * Which special tokens a model's files name, as transformers 5.19.0 reads them (`tokenization_utils_base.py`). `tokenizer_config.json` has
 * seven names for every model, names of the model's own, and two lists of which one counts. What older tools wrote beside it,
 * `special_tokens_map.json` and `added_tokens.json`, nobody reads where the configuration lists its added tokens.
 */
import type { AddedTokenEntry, TokenizerConfigFile } from './tokenizer-file.js'
import { specialTokenText } from './tokenizer-file.js'

type Names = Readonly<Record<string, unknown>>

/** Bare texts, or objects with flags, in the order in which they are added. */
export interface SpecialNames {
  readonly named: Names
  /** Those that have no name. */
  readonly extra: readonly unknown[]
}

export interface OlderFiles {
  /** `special_tokens_map.json`. */
  readonly map?: Names | undefined
  /** `added_tokens.json`: ids by text. */
  readonly added?: Names | undefined
  /** What `tokenizer.json` lists: it wins at its ids. */
  readonly listed?: readonly Pick<AddedTokenEntry, 'id'>[] | undefined
}

/** Those that every tokenizer may have. */
export const usualNames: readonly string[] = [
  'bos_token',
  'eos_token',
  'unk_token',
  'sep_token',
  'pad_token',
  'cls_token',
  'mask_token',
]

export function specialNamesOf(config: TokenizerConfigFile, map: Names = {}): SpecialNames {
  const { additional_special_tokens: mapAdditional, extra_special_tokens: mapExtra, ...mapNames } = map
  const said = Object.fromEntries(Object.entries(mapNames).map(([name, entry]) => [name, asSpecial(entry)]))
  const { own, extra, additional } = listsOf(config)
  const usual = Object.entries({ ...config, ...said }).filter(([name]) => usualNames.includes(name))
  usual.sort(([a], [b]) => usualNames.indexOf(a) - usualNames.indexOf(b))
  const named: Names = {
    ...Object.fromEntries(usual),
    ...ownNames(config, 'object'),
    ...ownNames(said, 'any'),
    ...ownNames(config, 'text'),
    ...own,
    ...(isRecord(mapExtra) ? mapExtra : {}),
  }
  const list = Array.isArray(mapExtra)
    ? [...itemsOf(extra), ...mapExtra.map(asSpecial)]
    : isRecord(mapExtra)
      ? undefined // the list of the configuration is lost by it
      : extra
  return {
    named: Object.fromEntries(Object.entries(named).filter(([, entry]) => specialTokenText(entry) !== undefined)),
    extra: itemsOf(list === undefined ? (mapAdditional ?? additional) : list),
  }
}

/** The configuration that says by itself what the older files say beside it. */
export function withOlderFiles(config: TokenizerConfigFile, older: OlderFiles): TokenizerConfigFile {
  if (Object.hasOwn(config, 'added_tokens_decoder')) return config
  const { named, extra } = specialNamesOf(config, older.map)
  const added = describeAdded(older.added ?? {}, textsReadBefore(config, older.map ?? {}, extra))
  const taken = new Set(older.listed?.map(({ id }) => id))
  const rest = Object.entries(config).filter(([name, entry]) => !usualNames.includes(name) && !isOwn(name, entry))
  const names = Object.entries(named)
  const isUsual = ([name]: readonly [string, unknown]): boolean => usualNames.includes(name)
  // What `added_tokens.json` has is found as that says, also where its id is another's.
  const usual = names
    .filter(isUsual)
    .map(([name, entry]) => [name, added.get(specialTokenText(entry)!)?.token ?? entry])
  return {
    ...Object.fromEntries([...rest, ...usual]),
    extra_special_tokens: Object.fromEntries(names.filter((it) => !isUsual(it))),
    additional_special_tokens: extra,
    added_tokens_decoder: Object.fromEntries(
      [...added.values()].filter(({ id }) => !taken.has(id)).map(({ id, token }) => [id, token]),
    ),
  }
}

interface Added {
  readonly id: number
  readonly token: { readonly content: string; readonly special: boolean; readonly normalized: boolean }
}

function describeAdded(ids: Names, specials: ReadonlySet<unknown>): ReadonlyMap<string, Added> {
  const added = new Map<string, Added>()
  for (const [content, id] of Object.entries(ids)) {
    const special = specials.has(content)
    if (typeof id === 'number') added.set(content, { id, token: { content, special, normalized: !special } })
  }
  return added
}

/** Special tokens when `added_tokens.json` is read: an object of `tokenizer_config.json` is not yet known as a token then. */
function textsReadBefore(config: TokenizerConfigFile, map: Names, extra: readonly unknown[]): ReadonlySet<unknown> {
  const usual = usualNames.map((name) => (map[name] === undefined ? config[name] : specialTokenText(map[name])))
  return new Set([...usual, ...extra, ...itemsOf(map['extra_special_tokens']).map(specialTokenText)])
}

interface Lists {
  /** Names of the model's own, which may stand in the place of the list. */
  readonly own?: Names
  /** The list that counts; absent: `additional` does, unless an older file has one. */
  readonly extra?: unknown
  readonly additional?: unknown
}

function listsOf({ additional_special_tokens: additional, extra_special_tokens: extra }: TokenizerConfigFile): Lists {
  const isFull = itemsOf(extra).length > 0
  if (!isFull && additional !== undefined) return { extra: additional }
  return isRecord(extra) ? { own: extra, additional } : { extra }
}

function ownNames(names: Names, form: 'text' | 'object' | 'any'): Names {
  const wanted = Object.entries(names).filter(
    ([name, entry]) => isOwn(name, entry) && (form === 'any' || (form === 'text') === (typeof entry === 'string')),
  )
  return Object.fromEntries(wanted)
}

function isOwn(name: string, entry: unknown): boolean {
  return name.endsWith('_token') && !usualNames.includes(name) && specialTokenText(entry) !== undefined
}

function asSpecial(entry: unknown): unknown {
  return isRecord(entry) ? { ...entry, special: true } : entry
}

function itemsOf(value: unknown): readonly unknown[] {
  return Array.isArray(value) ? value : isRecord(value) ? Object.values(value) : []
}

function isRecord(value: unknown): value is Names {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}
