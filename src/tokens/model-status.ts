/** Where the tokens of a model come from, as people are told: which source, what of it is known to be wrong, and whether prompts get any. */
import { CountedPrompts } from './parity/counted-prompts.js'
import { LoadOnlyRuns } from './load-only-runs.js'
import { EngineTokens } from './sources/engine-tokens.js'
import type { SourceName, TokenSource } from './sources/source.js'

export interface ModelStatus {
  readonly source: SourceName
  /** Folder or address. */
  readonly from: string | undefined
  /** `own` for our exact paths, `library` where the library encodes, with the reason. */
  readonly encoder: 'own' | 'library' | 'engine' | 'none'
  readonly reason: string | undefined
  /** What an engine is asked for: the new end of a prompt, or the whole of it, with the reason. */
  readonly asks?: 'ends' | 'whole' | undefined
  /** What an engine cannot be asked for, so that load alone decides about it. */
  readonly unaskable?: string | undefined
  /** Why no tokens come from the engine that serves the model, or other ones than from us: nothing that depends on them may be called exact. */
  readonly trouble?: string | undefined
  /** Why prompts are routed without tokens, by route where it is not all: there is no source, it gives none, or none of the last ones had any. */
  readonly loadOnly?: string | undefined
  /** Sources that were tried before, and why they did not serve. */
  readonly tried: readonly string[]
}

/** What requests have shown of the tokens that a source makes for one kind of engine. */
export class Shown {
  readonly counted: CountedPrompts = new CountedPrompts()
  readonly runs: LoadOnlyRuns = new LoadOnlyRuns()
}

export const nothing: ModelStatus = {
  source: 'none',
  from: undefined,
  encoder: 'none',
  reason: 'no source knows the model',
  loadOnly: 'no-tokenizer',
  tried: [],
}

/** It has a route for plain texts alone, and does not say what it puts around them. */
export const trtllmTrouble: string =
  'TensorRT-LLM tokenizes no chats for others (it has /_internal/tokenize, for bare texts)'

/** Of a model as its usual engines have it. */
export function usualStatus(
  { source, status }: { readonly source: TokenSource | undefined; readonly status: ModelStatus },
  shown: Shown | undefined,
): ModelStatus {
  const counted = shown?.counted.trouble
  if (!source) return { ...status, trouble: status.trouble ?? counted }
  const runs = shown?.runs.reason
  if (!(source instanceof EngineTokens)) return { ...status, loadOnly: runs, trouble: status.trouble ?? counted }
  return { ...status, ...askedOf(source), loadOnly: mute(source) ?? runs, trouble: source.trouble ?? counted }
}

/** Files serve every kind by its rules; without them each kind has an engine of its own. */
export function otherStatus(
  { source, status }: { readonly source: TokenSource | undefined; readonly status: ModelStatus },
  { engine, from, shown }: OtherShown,
): ModelStatus {
  const counted = shown.counted.trouble
  const runs = shown.runs.reason
  if (!source) return { ...status, trouble: counted }
  if (!(source instanceof EngineTokens)) return { ...status, loadOnly: runs, trouble: counted }
  const { tried } = status
  if (!engine) return { ...nothing, reason: trtllmTrouble, trouble: trtllmTrouble, tried }
  const trouble = engine.trouble ?? counted
  return {
    source: 'engine',
    from,
    encoder: 'engine',
    ...askedOf(engine),
    loadOnly: mute(engine) ?? runs,
    trouble,
    tried,
  }
}

export interface OtherShown {
  /** Its address. */
  readonly from: string | undefined
  readonly engine: EngineTokens | undefined
  readonly shown: Shown
}

function mute({ trouble }: EngineTokens): string | undefined {
  return trouble === undefined ? undefined : 'source-failed'
}

function askedOf({ wholeReason, unaskable }: EngineTokens): Pick<ModelStatus, 'asks' | 'reason' | 'unaskable'> {
  return { asks: wholeReason === undefined ? 'ends' : 'whole', reason: wholeReason, unaskable }
}
