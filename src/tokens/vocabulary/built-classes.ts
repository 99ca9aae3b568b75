/**
 * What do engines build of a tokenizer's files? Some classes of transformers 5.19.0 take the vocabulary, the merges and the post-processor of
 * `tokenizer.json` and bring everything else themselves: how texts are normalised and cut, and names of special tokens. Here such a file
 * becomes one that says all of that, so that nobody behind this has to know.
 */
import type { AddedTokenEntry, Step, TokenizerConfigFile, TokenizerFile } from './tokenizer-file.js'
import { numberAddedTokens } from './added-ids.js'
import { cl100k } from './patterns.js'
import { specialNamesOf, usualNames } from './special-names.js'
import { specialTokenText } from './tokenizer-file.js'

/** By their names, without `Tokenizer` and `Fast`. */
export type BuiltClass =
  | 'CodeGen'
  | 'CodeLlama'
  | 'Cohere'
  | 'GPT2'
  | 'GPTNeoX'
  | 'Gemma'
  | 'Llama'
  | 'Qwen2'
  | 'Qwen3_5'

export interface TokenizerFiles {
  readonly file: TokenizerFile
  readonly config: TokenizerConfigFile
}

interface Builder {
  readonly kind: 'byte-level' | 'sentencepiece'
  /** Special tokens that it names where the configuration does not. */
  readonly names: Readonly<Record<string, string>>
  readonly normalizer: Step | null
  readonly preTokenizer: (config: TokenizerConfigFile) => Step
  readonly post?: 'bos' | 'none'
  /** Special tokens are added twice, the second time by their texts alone, or as the configuration names them. */
  readonly again?: 'bare' | 'as-named'
}

const nfc: Step = { type: 'NFC' }
const spacesToMarks: Step = { type: 'Replace', pattern: { String: ' ' }, content: '▁' }
const unflagged = { single_word: false, lstrip: false, rstrip: false, normalized: false, special: true }
const endOfText = '<|endoftext|>'

const builders: Readonly<Record<BuiltClass, Builder>> = {
  CodeGen: { kind: 'byte-level', names: gpt2Names(), normalizer: null, preTokenizer: byteLevel },
  CodeLlama: {
    kind: 'sentencepiece',
    names: {
      ...llamaNames(),
      prefix_token: '▁<PRE>',
      middle_token: '▁<MID>',
      suffix_token: '▁<SUF>',
      eot_token: '▁<EOT>',
      fill_token: '<FILL_ME>',
    },
    normalizer: null,
    preTokenizer: ({ add_prefix_space: adds }) => metaspace(adds === false ? 'never' : 'first'),
    post: 'bos',
  },
  Cohere: {
    kind: 'byte-level',
    names: {
      bos_token: '<BOS_TOKEN>',
      eos_token: '<|END_OF_TURN_TOKEN|>',
      unk_token: '<UNK>',
      sep_token: '<SEP>',
      pad_token: '<PAD>',
      cls_token: '<CLS>',
      mask_token: '<MASK_TOKEN>',
    },
    normalizer: nfc,
    preTokenizer: (config) => sequence({ type: 'Digits', individual_digits: true }, byteLevel(config)),
    again: 'as-named',
  },
  GPT2: { kind: 'byte-level', names: gpt2Names(), normalizer: null, preTokenizer: byteLevel },
  GPTNeoX: {
    kind: 'byte-level',
    names: { ...gpt2Names(), pad_token: '<|padding|>' },
    normalizer: nfc,
    preTokenizer: byteLevel,
    post: 'none',
  },
  Gemma: {
    kind: 'sentencepiece',
    names: { bos_token: '<bos>', eos_token: '<eos>', unk_token: '<unk>', pad_token: '<pad>', mask_token: '<mask>' },
    normalizer: spacesToMarks,
    preTokenizer: () => ({ type: 'Split', pattern: { String: ' ' }, behavior: 'MergedWithPrevious', invert: false }),
  },
  Llama: {
    kind: 'sentencepiece',
    names: llamaNames(),
    normalizer: null,
    preTokenizer: ({ add_prefix_space: adds, legacy }) =>
      metaspace(adds === false ? 'never' : legacy === true ? 'always' : 'first'),
  },
  Qwen2: {
    kind: 'byte-level',
    names: qwenNames(),
    normalizer: nfc,
    preTokenizer: (config) => cut(String.raw`\p{L}`, String.raw`\p{L}`, config),
    again: 'bare',
  },
  Qwen3_5: {
    kind: 'byte-level',
    names: qwenNames(),
    normalizer: nfc,
    preTokenizer: (config) => cut(String.raw`[\p{L}\p{M}]`, String.raw`\p{L}\p{M}`, config),
  },
}

export function isBuiltClass(name: string): name is BuiltClass {
  return Object.hasOwn(builders, name)
}

/** Whether its vocabulary is of the kind that the class has. */
export function fits(name: BuiltClass, { model }: TokenizerFile): boolean {
  return (model.byte_fallback === true) === (builders[name].kind === 'sentencepiece')
}

/** What the files say before `withOlderFiles` settles it. */
export interface SaidByFiles {
  /** A special token has this name, or it is said to be none. */
  readonly isNamed: (name: string) => boolean
  /** The configuration lists the added tokens: then nobody looks at those of `tokenizer.json`. */
  readonly isListed: boolean
}

/** The files as the class reads them. Throws where their vocabulary is of another kind, so that nothing sensible comes out of it. */
export function builtBy(
  name: BuiltClass,
  { file, config }: TokenizerFiles,
  { isNamed, isListed }: SaidByFiles,
): TokenizerFiles {
  const { kind, names, normalizer, preTokenizer, post, again } = builders[name]
  if (!fits(name, file)) throw new Error(`engines take it for ${name}'s, which is ${kind}, and it is not`)
  const missing = Object.entries(names).filter(([key]) => !isNamed(key))
  const { added_tokens_decoder: decoder, ...rest } = config
  const settled: TokenizerConfigFile = { ...rest, ...Object.fromEntries(missing) }
  const unknown = kind === 'byte-level' || name === 'Llama' ? undefined : specialTokenText(settled['unk_token'])
  const model = { ...file.model, dropout: null, ignore_merges: false, unk_token: unknown ?? null }
  const listed = isListed ? [] : inOrder(file.added_tokens ?? [], decoder)
  const numbered = { ...settled, added_tokens_decoder: isListed ? decoder : {} }
  const added = numberAddedTokens({ ...file, added_tokens: listed }, numbered)
  const built = {
    ...file,
    added_tokens: [...added, ...addedAgain(again, added, settled, isNamed)],
    normalizer,
    pre_tokenizer: preTokenizer(config),
    model,
  }
  if (post !== undefined) return { file: { ...built, post_processor: around(post, built, settled) }, config: settled }
  return { file: built, config: settled }
}

/** Those of the file and those of `added_tokens.json`, by the ids that stand there. */
function inOrder(listed: readonly AddedTokenEntry[], decoder: unknown): readonly AddedTokenEntry[] {
  const others = Object.entries((decoder ?? {}) as Readonly<Record<string, Omit<AddedTokenEntry, 'id'>>>)
  const described = others.map(([id, token]) => ({ ...unflagged, ...token, id: Number(id) }))
  return [...listed, ...described].sort((a, b) => a.id - b.id)
}

/** The last of several that are written alike says how it is found. */
function addedAgain(
  again: Builder['again'],
  added: readonly AddedTokenEntry[],
  config: TokenizerConfigFile,
  isNamed: SaidByFiles['isNamed'],
): readonly AddedTokenEntry[] {
  if (again === undefined) return []
  const { named, extra } = specialNamesOf(config)
  const names = [...Object.entries(named), ...extra.map((entry) => ['', entry] as const)]
  return names.flatMap(([name, entry]) => {
    const token = added.find(({ content }) => content === specialTokenText(entry))
    if (!token || (again === 'as-named' && usualNames.includes(name) && isNamed(name))) return []
    const flags = again === 'bare' || typeof entry === 'string' ? {} : (entry as Partial<AddedTokenEntry>)
    return [{ ...token, ...unflagged, ...flags, id: token.id }]
  })
}

function around(post: 'bos' | 'none', file: TokenizerFile, config: TokenizerConfigFile): Step | null {
  const bos = specialTokenText(config['bos_token'])
  const id = file.added_tokens?.find(({ content }) => content === bos)?.id
  if (post === 'none' || bos === undefined || id === undefined) return null
  return {
    type: 'TemplateProcessing',
    single: [{ SpecialToken: { id: bos } }, { Sequence: { id: 'A' } }],
    special_tokens: { [bos]: { ids: [id] } },
  }
}

function gpt2Names(): Builder['names'] {
  return { bos_token: endOfText, eos_token: endOfText, unk_token: endOfText }
}

function llamaNames(): Builder['names'] {
  return { bos_token: '<s>', eos_token: '</s>', unk_token: '<unk>' }
}

function qwenNames(): Builder['names'] {
  return { eos_token: endOfText, unk_token: endOfText, pad_token: endOfText }
}

function byteLevel({ add_prefix_space: adds }: TokenizerConfigFile, usesPattern = true): Step {
  return { type: 'ByteLevel', add_prefix_space: adds === true, use_regex: usesPattern }
}

function cut(letters: string, lettersInClass: string, config: TokenizerConfigFile): Step {
  const pattern = { Regex: cl100k(letters, String.raw`\p{N}`, lettersInClass) }
  return sequence({ type: 'Split', pattern, behavior: 'Isolated', invert: false }, byteLevel(config, false))
}

function metaspace(scheme: 'always' | 'first' | 'never'): Step {
  return { type: 'Metaspace', replacement: '▁', prepend_scheme: scheme, split: false }
}

function sequence(...pretokenizers: readonly Step[]): Step {
  return { type: 'Sequence', pretokenizers }
}
