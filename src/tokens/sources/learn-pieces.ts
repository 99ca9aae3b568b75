/** Finds out what an engine's texts are made of, so that later only their new ends have to be asked for. */
import { WarmrouteError } from '../../core/protocol/index.js'
import type { PromptRules } from '../chat/build-prompt.js'
import type { ParsedTemplate } from '../chat/chat-template.js'
import { ChatTemplates } from '../chat/chat-template.js'
import { CutTokens, cutCandidates, isFoundEverywhere, probeText } from './cut-tokens.js'
import type { PiecesParts, Wrapping } from './engine-pieces.js'
import { EnginePieces } from './engine-pieces.js'
import { harmonyMarks } from './own-renderers.js'
import type { ToldTokenizer } from './tokenizer-info.js'
import { readTokenizerInfo } from './tokenizer-info.js'

/** Parses templates where that does not hold the loop. */
export type ParseTemplates = (templates: ToldTokenizer['templates']) => Promise<readonly ParsedTemplate[]>

export interface LearnParts extends Pick<PiecesParts, 'bytesMax' | 'checkedFirst' | 'checkedEvery' | 'renderMsMax'> {
  readonly rules: PromptRules
  readonly parse: ParseTemplates
  readonly askInfo: () => Promise<{ readonly status: number; readonly value: unknown }>
  readonly encode: Encode
}

type Encode = (text: string, addSpecialTokens: boolean) => Promise<Uint32Array>

/** Why an engine's texts are not known. */
export interface Unlearnt {
  readonly reason: string
  /** It may be otherwise later: something failed, and nothing was said. */
  readonly mayPass: boolean
}

/** Never rejects: then prompts are asked for as a whole. */
export async function learnPieces(parts: LearnParts): Promise<EnginePieces | Unlearnt> {
  try {
    const { status, value } = await parts.askInfo()
    if (status >= 500 || status === 408 || status === 429) return failed(`it answered ${status}`, true)
    if (status !== 200) return never('it was not started with --enable-tokenizer-info-endpoint')
    const told = readTokenizerInfo(value)
    return told ? await learnFrom(told, parts) : never('it tells no added tokens')
  } catch (error) {
    const isTemplate = error instanceof WarmrouteError && error.code === 'WR_TOKENS_TEMPLATE_FAILED'
    return failed(error instanceof Error ? error.message : String(error), !isTemplate)
  }
}

function failed(why: string, mayPass: boolean): Unlearnt {
  return { reason: `its tokenizer could not be learnt: ${why}`, mayPass }
}

function never(reason: string): Unlearnt {
  return { reason, mayPass: false }
}

async function learnFrom(told: ToldTokenizer, parts: LearnParts): Promise<EnginePieces | Unlearnt> {
  if (harmonyMarks.every((mark) => told.added.some(({ text }) => text === mark)))
    return never('it renders chats of this model by code of its own')
  const { parse, encode, askInfo: _, ...others } = parts
  const mentions = [...told.templates.map(({ source }) => source), ...Object.values(told.specials)]
  const candidates = await cutCandidates(told.added, mentions)
  const isCut = await Promise.all(
    candidates.map(async (it) => isFoundEverywhere(it, await encode(probeText(it), false))),
  )
  const tokens = candidates.filter((_, index) => isCut[index])
  if (tokens.length === 0) return never('none of its added tokens is certain to part a text')
  return new EnginePieces({
    ...others,
    cutTokens: new CutTokens(tokens),
    templates: new ChatTemplates(await parse(told.templates), told.specials),
    wrapping: await learnWrapping(`a${tokens[0]!.text}a`, encode),
  })
}

/** Which special tokens stand around a text, from one that is asked for with and without. */
async function learnWrapping(sample: string, encode: Encode): Promise<Wrapping | undefined> {
  const [bare, wrapped] = await Promise.all([encode(sample, false), encode(sample, true)])
  const offsets = Array.from({ length: Math.max(0, wrapped.length - bare.length + 1) }, (_, at) => at)
  const starts = offsets.filter((at) => bare.every((id, index) => wrapped[at + index] === id))
  const [at] = starts
  if (at === undefined || starts.length > 1) return undefined
  return { before: wrapped.slice(0, at), after: wrapped.slice(at + bare.length) }
}
