/** Finds out what an engine's texts are made of, so that later only their new ends have to be asked for. */
import type { PromptRules } from '../chat/build-prompt.js'
import type { ParsedTemplate } from '../chat/chat-template.js'
import { ChatTemplates } from '../chat/chat-template.js'
import { CutTokens, cutCandidates, isFoundEverywhere, probeText } from './cut-tokens.js'
import type { PiecesParts, Wrapping } from './engine-pieces.js'
import { EnginePieces } from './engine-pieces.js'
import type { ToldTokenizer } from './tokenizer-info.js'
import { readTokenizerInfo } from './tokenizer-info.js'

/** Parses templates where that does not hold the loop. */
export type ParseTemplates = (templates: ToldTokenizer['templates']) => Promise<readonly ParsedTemplate[]>

export interface LearnParts extends Pick<PiecesParts, 'bytesMax' | 'checkedFirst' | 'checkedEvery'> {
  readonly rules: PromptRules
  readonly parse: ParseTemplates
  readonly askInfo: () => Promise<{ readonly status: number; readonly value: unknown }>
  readonly encode: Encode
}

type Encode = (text: string, addSpecialTokens: boolean) => Promise<Uint32Array>

/** Or why not. Never rejects: then prompts are asked for as a whole. */
export async function learnPieces(parts: LearnParts): Promise<EnginePieces | string> {
  try {
    const { status, value } = await parts.askInfo()
    if (status !== 200) return 'it was not started with --enable-tokenizer-info-endpoint'
    const told = readTokenizerInfo(value)
    return told ? await learnFrom(told, parts) : 'it tells no added tokens'
  } catch (error) {
    return `its tokenizer could not be learnt: ${error instanceof Error ? error.message : String(error)}`
  }
}

async function learnFrom(told: ToldTokenizer, parts: LearnParts): Promise<EnginePieces | string> {
  const { parse, encode, askInfo: _, ...others } = parts
  const mentions = [...told.templates.map(({ source }) => source), ...Object.values(told.specials)]
  const candidates = cutCandidates(told.added, mentions)
  const isCut = await Promise.all(
    candidates.map(async (it) => isFoundEverywhere(it, await encode(probeText(it), false))),
  )
  const tokens = candidates.filter((_, index) => isCut[index])
  if (tokens.length === 0) return 'none of its added tokens is certain to part a text'
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
