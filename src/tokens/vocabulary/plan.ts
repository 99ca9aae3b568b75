/**
 * Reads a `tokenizer.json` and says how texts are encoded with it: by our own exact paths, or by the library when the file
 * asks for a step that we have no fast twin of. Pure; the plan is plain data and travels to threads.
 */
import { numberAddedTokens } from './added-ids.js'
import { deepseekPatterns, gpt2Pattern, knownPatterns, linearPatterns } from './patterns.js'
import type { AddedTokenEntry, Step, TokenizerConfigFile, TokenizerFile } from './tokenizer-file.js'
import { specialTokenText } from './tokenizer-file.js'
import { toNfc } from './unicode-of-engines.js'

/** How a section between added tokens is cut into pieces that are merged on their own. */
export type SplitPlan =
  | { readonly kind: 'gpt2'; readonly digits?: 'each' | 'runs' } // `digits`: numbers are cut out first (Cohere, StarCoder, SmolLM)
  | { readonly kind: 'cl100k'; readonly digitsMax: number; readonly letters: number } // Llama 3, Qwen 2 and 3, and their kin
  | { readonly kind: 'cased'; readonly digitsMax: number; readonly takesContractions: boolean } // gpt-oss, Llama 4; Mistral's Tekken
  | { readonly kind: 'deepseek' }
  | { readonly kind: 'steps'; readonly steps: readonly Step[]; readonly isLinear: boolean } // any list of isolating splits, run by the library
  | { readonly kind: 'joins'; readonly cutsAtMark: boolean } // no pre-tokenizer: cut where no merge can cross

/** What stands before the first character of a section. */
export type SectionPrefix =
  | 'none'
  | 'always' // a word mark, always: the `Prepend` normaliser
  | 'unless-marked' // Metaspace `always`: a word mark where the section does not begin with one
  | 'first' // Metaspace `first`: the same, at the start of the text only

export interface EncoderPlan extends Specials {
  readonly kind: 'byte-level' | 'sentencepiece'
  readonly split: SplitPlan
  readonly prefix: SectionPrefix
  readonly isNfc: boolean
  readonly ignoresMerges: boolean
  readonly addedTokens: readonly AddedTokenEntry[]
}

export interface LibraryPlan extends Specials {
  readonly kind: 'library'
  /** Which step has no fast twin. */
  readonly reason: string
}

/** What `add_special_tokens` puts around a text. */
export interface Specials {
  readonly specialsBefore: readonly number[]
  readonly specialsAfter: readonly number[]
  readonly specialsBut?: SpecialsBut | undefined
}

/** Engines that put nothing there, or other tokens than these. */
export type SpecialsBut = Readonly<Partial<Record<'vllm' | 'sglang' | 'trtllm', 'none' | 'other'>>>

export interface PlanOptions {
  /** What stands around a text of a Llama tokenizer goes by the switches of its configuration, as with transformers 4. */
  readonly goesBySwitches?: boolean
}

export function planEncoder(
  file: TokenizerFile,
  config: TokenizerConfigFile,
  options: PlanOptions = {},
): EncoderPlan | LibraryPlan {
  const addedTokens = numberAddedTokens(file, config)
  const specials = planSpecials(file, config, addedTokens, options)
  const shape = planShape({ ...file, added_tokens: addedTokens })
  if (typeof shape === 'string') return { kind: 'library', reason: shape, ...specials }
  return { ...shape, ...specials, addedTokens }
}

type Shape = Omit<EncoderPlan, 'addedTokens' | keyof Specials>

function planShape(file: TokenizerFile): Shape | string {
  const { model } = file
  if ((model.type ?? 'BPE') !== 'BPE' || !model.merges) return `model ${model.type ?? 'without merges'}`
  if (model.dropout) return 'dropout'
  if (model.continuing_subword_prefix || model.end_of_word_suffix) return 'subword affixes'
  return model.byte_fallback ? planSentencepiece(file) : planByteLevel(file)
}

function planByteLevel(file: TokenizerFile): Shape | string {
  const normalizers = flatten(file.normalizer, 'normalizers')
  const odd = normalizers.find((step) => step.type !== 'NFC')
  if (odd) return `normalizer ${odd.type}`
  const unlike = normalizers.length > 0 && tokenThat(file, ({ content }) => toNfc(content) !== content)
  if (unlike) return unlike
  const steps = flatten(file.pre_tokenizer, 'pretokenizers')
  const last = steps.at(-1)
  if (last?.type !== 'ByteLevel') return `pre-tokenizer ${last?.type ?? 'null'}`
  if (last['add_prefix_space'] === true) return 'add_prefix_space'
  const splits = steps.slice(0, -1)
  const foreign = splits.find((step) => !isIsolating(step))
  if (foreign) return `pre-tokenizer ${foreign.type}`
  if (last['use_regex'] !== false) {
    splits.push({ type: 'Split', pattern: { Regex: gpt2Pattern }, behavior: 'Isolated', invert: false })
  }
  return {
    kind: 'byte-level',
    split: recognise(splits),
    prefix: 'none',
    isNfc: normalizers.length > 0,
    ignoresMerges: file.model.ignore_merges ?? false,
  }
}

function recognise(splits: readonly Step[]): SplitPlan {
  const patterns = splits.map((step) => (step['pattern'] as { Regex?: string } | undefined)?.Regex)
  if (patterns.length === 1 && patterns[0] !== undefined) {
    const known = knownPatterns[patterns[0]]
    if (known) return known
  }
  const digits = splits.length === 2 && splits[0]!.type === 'Digits' && patterns[1] === gpt2Pattern
  if (digits) return { kind: 'gpt2', digits: splits[0]!['individual_digits'] === true ? 'each' : 'runs' }
  const isDeepseek = patterns.length === 3 && patterns.every((pattern, index) => pattern === deepseekPatterns[index])
  return isDeepseek ? { kind: 'deepseek' } : { kind: 'steps', steps: splits, isLinear: splits.every(isLinear) }
}

/** Whether we know that it takes no longer than a text is long. */
function isLinear({ type, pattern }: Step): boolean {
  const regex = (pattern as { Regex?: string } | undefined)?.Regex
  return type === 'Digits' || regex === undefined || linearPatterns.has(regex)
}

/** The first added token that is looked for behind the normaliser, which changes its spelling, too: we look for tokens as they are written. */
function tokenThat(
  { added_tokens: added }: TokenizerFile,
  isChanged: (token: AddedTokenEntry) => boolean,
): string | undefined {
  const token = added?.find((it) => it.normalized && isChanged(it))
  return token && `added token ${token.content}, which is normalised`
}

/** A step that only cuts: what it leaves is the text, in pieces. */
function isIsolating(step: Step): boolean {
  if (step.type === 'Digits') return true
  return step.type === 'Split' && step['behavior'] === 'Isolated' && step['invert'] !== true
}

function planSentencepiece(file: TokenizerFile): Shape | string {
  if (file.model.ignore_merges) return 'ignore_merges without a pre-tokenizer'
  const steps = sentencepieceSteps(file)
  if (typeof steps === 'string') return steps
  const { prefix, cutsAtMark } = steps
  return {
    kind: 'sentencepiece',
    split: { kind: 'joins', cutsAtMark },
    prefix,
    isNfc: false,
    ignoresMerges: false,
  }
}

function sentencepieceSteps(
  file: TokenizerFile,
): { readonly prefix: SectionPrefix; readonly cutsAtMark: boolean } | string {
  const normalizers = flatten(file.normalizer, 'normalizers')
  const pre = flatten(file.pre_tokenizer, 'pretokenizers')
  const prepends = normalizers[0]?.type === 'Prepend' && normalizers[0]['prepend'] === '▁'
  const rest = prepends ? normalizers.slice(1) : normalizers
  const replaces = rest.length === 1 && isSpaceToMark(rest[0]!)
  if (replaces && pre.every(isSplitAtSpace)) {
    // Nor does one find the white space beside it that has become marks.
    const isChanged = ({ content, lstrip, rstrip }: AddedTokenEntry): boolean =>
      prepends || lstrip || rstrip || /[ ▁]/.test(content)
    const unlike = tokenThat(file, isChanged)
    return unlike ?? { prefix: prepends ? 'always' : 'none', cutsAtMark: false }
  }
  if (normalizers.length === 0 && pre.length === 1 && pre[0]!.type === 'Metaspace') {
    const { replacement, prepend_scheme: scheme, split } = pre[0]!
    if (replacement !== '▁') return 'Metaspace with its own mark'
    const prefix = scheme === 'never' ? 'none' : scheme === 'first' ? 'first' : 'unless-marked'
    return { prefix, cutsAtMark: split !== false }
  }
  const names = [...normalizers, ...pre].map((step) => step.type).join(', ')
  return `steps ${names}`
}

function isSpaceToMark(step: Step): boolean {
  const pattern = (step['pattern'] as { String?: string } | undefined)?.String
  return step.type === 'Replace' && pattern === ' ' && step['content'] === '▁'
}

/** Gemma splits at spaces after its normaliser has replaced them all: the step never cuts. */
function isSplitAtSpace(step: Step): boolean {
  return step.type === 'Split' && (step['pattern'] as { String?: string } | undefined)?.String === ' '
}

/** Of a tokenizer whose classes have switches for them. */
const switchedClass = /^((Code)?Llama|Gemma)Tokenizer(Fast)?$|^CohereTokenizerFast$/

/**
 * transformers 5 passes over `add_bos_token` and `add_eos_token` where there is a `tokenizer.json`, and vLLM (0.32.0) with it. SGLang, by its source,
 * has the first again, for classes that know it, and then nothing else stands there. With transformers 4 a Llama tokenizer goes by both.
 */
function planSpecials(
  file: TokenizerFile,
  config: TokenizerConfigFile,
  addedTokens: readonly AddedTokenEntry[],
  { goesBySwitches }: PlanOptions,
): Specials {
  const idsOf = (name: string): readonly number[] => {
    const text = specialTokenText(config[name])
    if (text === undefined) return []
    const id = addedTokens.find((token) => token.content === text)?.id ?? file.model.vocab[text]
    return id === undefined ? [] : [id]
  }
  const { tokenizer_class: name = '', add_bos_token: addsBos, add_eos_token: addsEos } = config
  if (goesBySwitches && isLlama(config) && typeof addsBos === 'boolean')
    return { specialsBefore: addsBos ? idsOf('bos_token') : [], specialsAfter: addsEos ? idsOf('eos_token') : [] }
  const ofFile = specialsOfFile(file)
  if (!switchedClass.test(name ?? '') || addsBos === false || idsOf('bos_token').length === 0) return ofFile
  const restored: Specials = { specialsBefore: idsOf('bos_token'), specialsAfter: [] }
  if (isSame(ofFile, restored)) return ofFile
  const isBare = isSame(ofFile, { specialsBefore: [], specialsAfter: [] })
  return isBare ? { ...restored, specialsBut: { vllm: 'none' } } : { ...ofFile, specialsBut: { sglang: 'other' } }
}

function isSame(a: Specials, b: Specials): boolean {
  const spelled = ({ specialsBefore, specialsAfter }: Specials): string =>
    JSON.stringify([specialsBefore, specialsAfter])
  return spelled(a) === spelled(b)
}

function isLlama(config: TokenizerConfigFile): boolean {
  return /^(Code)?LlamaTokenizer(Fast)?$/.test(config.tokenizer_class ?? '')
}

function specialsOfFile(file: TokenizerFile): Specials {
  const steps = flatten(file.post_processor, 'processors')
  const template = steps.find((step) => step.type === 'TemplateProcessing')
  const around = steps.find((step) => step.type === 'RobertaProcessing' || step.type === 'BertProcessing')
  if (around && !template) {
    const idIn = (part: unknown): number[] => [(part as readonly [string, number])[1]]
    return { specialsBefore: idIn(around['cls']), specialsAfter: idIn(around['sep']) }
  }
  if (!template) return { specialsBefore: [], specialsAfter: [] }
  const single = template['single'] as readonly Record<string, { readonly id: string }>[]
  const known = template['special_tokens'] as Record<string, { readonly ids: readonly number[] }>
  const text = single.findIndex((part) => 'Sequence' in part)
  const idsOf = (parts: readonly Record<string, { readonly id: string }>[]): number[] =>
    parts.flatMap((part) => known[part['SpecialToken']?.id ?? '']?.ids ?? [])
  return { specialsBefore: idsOf(single.slice(0, text)), specialsAfter: idsOf(single.slice(text + 1)) }
}

/** The steps of a `Sequence`, however deep, in order. */
function flatten(step: Step | null | undefined, key: string): Step[] {
  if (!step) return []
  if (step.type !== 'Sequence') return [step]
  return ((step[key] as readonly Step[] | undefined) ?? []).flatMap((inner) => flatten(inner, key))
}
