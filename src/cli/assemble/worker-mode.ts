/** What may be claimed of a worker, and what its owner can do about it. Pure: facts in, mode and reason out. */
import type { EngineFacts, EngineKind } from '../../engines/index.js'
import { namesPairs } from '../../engines/index.js'
import type { WorkerMode } from '../../server/index.js'
import { dialectOf } from './joined.js'

/** One rank's event stream, as far as the claim depends on it. */
export interface FeedView {
  readonly isLive: boolean
  /** Something is known: a batch was applied, or a replay showed that there was none yet. */
  readonly hasStarted: boolean
}

export interface ModeInput {
  readonly facts: EngineFacts
  /** Tokens per block by which the model is routed; undefined where caches do not matter. */
  readonly blockSize: number | undefined
  /** The model's blocks are named by pairs of tokens. */
  readonly isEagle?: boolean
  readonly hasTokens: boolean
  /** Why there are none, where somebody said so. */
  readonly tokenTrouble?: string | undefined
  readonly feeds: readonly FeedView[]
  /** It was exact before: what is missing now is a loss, not a beginning. */
  readonly wasExact: boolean
  /** It only decodes, and keeps no prompts for others (SGLang). */
  readonly keepsNoPrompts?: boolean
}

export interface ModeVerdict {
  readonly mode: WorkerMode
  /** Why it is not exact; undefined when it is. */
  readonly reason: string | undefined
  /** What to add to the engine's command line, or to ours. */
  readonly fix: string | undefined
}

const eventPorts = '"endpoint":"tcp://*:5557","replay_endpoint":"tcp://*:5657"'

/** The flag that switches events on, per engine. */
export const eventFlags: Readonly<Partial<Record<EngineKind, string>>> = {
  vllm: `--kv-events-config '{"enable_kv_cache_events":true,${eventPorts}}'`,
  sglang: `--kv-events-config '{"publisher":"zmq",${eventPorts}}'`,
  trtllm: 'kv_cache_config: {event_buffer_max_size: 65536}, and trtllm_poll_ms: 100 here, if nobody else polls',
}

/** The flag that makes an engine say how many prompt tokens it had cached. */
export const cacheReportFlags: Readonly<Partial<Record<EngineKind, string>>> = {
  vllm: '--enable-prompt-tokens-details',
  sglang: '--enable-cache-report',
}

/** The flag that sets the tokens of a block. */
export const blockSizeFlags: Readonly<Partial<Record<EngineKind, string>>> = {
  vllm: '--block-size',
  sglang: '--page-size',
}

export function judgeMode(input: ModeInput): ModeVerdict {
  const { facts, blockSize, feeds, wasExact } = input
  if (blockSize === undefined) return verdict('load-only', 'the chosen policy does not look at caches', undefined)
  if (input.keepsNoPrompts) return verdict('load-only', 'it only decodes, and its prompts come from others', undefined)
  const isCacheOff = facts.hasPrefixCache?.value === false
  if (facts.generates?.value === false && !isCacheOff)
    return verdict(
      'approximate',
      'its model answers with numbers, whose prompts are compared by their bytes',
      undefined,
    )
  const lacks = lacksOf(input, blockSize)
  if (lacks.length > 0) {
    const mode = isCacheOff ? 'load-only' : 'approximate'
    const fixes = lacks.flatMap(({ fix }) => fix ?? [])
    const fix = fixes.length === 0 ? undefined : fixes.join(', and ')
    return verdict(mode, lacks.map(({ reason }) => reason).join('; '), fix)
  }
  if (feeds.every((feed) => feed.isLive && feed.hasStarted)) return verdict('exact', undefined, undefined)
  if (wasExact) return verdict('degraded', 'its events are interrupted', undefined)
  return verdict('approximate', 'its events have not arrived yet', undefined)
}

interface Lack {
  readonly reason: string
  readonly fix: string | undefined
}

/** Everything that keeps it from being exact until somebody changes it: mending one of several would not do. */
function lacksOf(input: ModeInput, blockSize: number): Lack[] {
  const { facts, hasTokens, feeds } = input
  const kind = facts.kind.value
  const lacks: Lack[] = []
  if (facts.hasPrefixCache?.value === false)
    lacks.push({
      reason: 'its prefix cache is off',
      fix: kind === 'sglang' ? 'drop --disable-radix-cache' : '--enable-prefix-caching',
    })
  const own = facts.blockSize?.value
  if (own !== undefined && own !== blockSize)
    lacks.push({
      reason: `its blocks have ${own} tokens, those of the model ${blockSize}`,
      fix: `${blockSizeFlags[kind] ?? 'the same block size'} ${blockSize}`,
    })
  if (namesPairs(facts) !== (input.isEagle ?? false))
    lacks.push({
      reason: 'it names blocks by pairs of tokens where other workers of the model do not, or the other way round',
      fix: 'the same --speculative-algorithm everywhere',
    })
  if (feeds.length === 0) {
    const isOff = facts.eventSources?.value.length === 0
    // Where blocks cannot be compared nobody looked for events that are not announced.
    if (isOff) lacks.push({ reason: 'it publishes no events', fix: eventFlags[kind] })
    else if (lacks.length === 0) lacks.push({ reason: 'it does not say where its events are', fix: eventFlags[kind] })
  }
  if (!hasTokens) {
    const why = input.tokenTrouble === undefined ? '' : `: ${input.tokenTrouble}`
    // Files would not help: every kind builds prompts by rules of its own.
    const fix = dialectOf(facts) === undefined ? undefined : 'warmroute serve --tokenizer <folder>'
    lacks.push({ reason: `no tokenizer knows its prompts${why}`, fix })
  }
  return lacks
}

function verdict(mode: WorkerMode, reason: string | undefined, fix: string | undefined): ModeVerdict {
  return { mode, reason, fix }
}
