/** What can be set of a simulated server, and what holds when nothing is set. */
import type { EngineOptions } from '../engine/engine.js'
import { dynamoProfile } from '../engine/timing.js'
import type { TimingProfile } from '../engine/timing.js'
import type { EngineName } from './engine-name.js'
import { recordedVersions, requireVersion } from './engine-name.js'
import type { Fault } from './faults.js'
import type { SimTask } from './pooled.js'
import { createSimTokenizer } from './tokenizer.js'
import type { SimTokenizer } from './tokenizer.js'

export interface EventSocketOptions {
  /** First port; rank r listens on port + r. 0 takes free ports. */
  readonly port: number
  readonly replayPort: number
  readonly topic: string
  readonly bufferSteps: number
}

export const pairKinds = ['nixl', 'nixl_push', 'mooncake', 'shared_cache', 'prefill', 'decode'] as const
export type PairKind = (typeof pairKinds)[number]

/** One side of a disaggregated pair. */
export interface PairOptions {
  /** vLLM: the connector, on both sides. SGLang: which side this is. */
  readonly kind: PairKind
  /** vLLM's fixed id of the engine, which connectors whose legs start together need; otherwise a random one. */
  readonly engineId?: string | undefined
  /** Which cache beside the engines is used (`shared_cache`). */
  readonly store: string
  /** vLLM's own word for the half, shown in development mode. */
  readonly kvRole?: 'kv_producer' | 'kv_consumer' | 'kv_both' | undefined
  /** NIXL's side channel, Mooncake's or SGLang's bootstrap server; 0 takes a free port. */
  readonly port: number
  /** How long held KV waits to be read (vLLM 0.22 and later: 30 s). */
  readonly leaseMs: number
  readonly transferMsPerToken: number
  /** How long a decode engine tries to reach a prefill engine. */
  readonly connectMs: number
  /** How long one leg waits for the other, where both start together. */
  readonly rendezvousMs: number
  /** How often SGLang's decode side looks after its prefill side; it is given up after two looks in vain. */
  readonly heartbeatMs: number
}

/**
 * What a simulated server is.
 *
 * @example
 * import { type SimEngineOptions, startSimEngine } from 'warmroute/sim'
 *
 * const options: SimEngineOptions = { engine: 'vllm', models: ['llama'], ranks: 2, blockTokens: 32, speedup: 10 }
 * const engine = await startSimEngine(options)
 * console.log(engine.eventPorts.length) // => 2
 * await engine.close()
 */
export interface SimEngineOptions {
  readonly engine: EngineName
  readonly version?: string
  readonly host?: string
  readonly port?: number
  /** Served names; the first is the one that answers carry. */
  readonly models?: readonly string[]
  /** What the model is for; one that does not `generate` answers with numbers. */
  readonly task?: SimTask
  /** What `/v1/models` gives as the model's path. */
  readonly root?: string
  /** LoRA adapters, served as models of their own. */
  readonly adapters?: readonly string[]
  readonly ranks?: number
  readonly blockTokens?: number
  readonly blocks?: number
  /** Blocks of the host tier; 0 has none. */
  readonly hostBlocks?: number
  readonly sequencesMax?: number
  readonly batchedTokensMax?: number
  readonly modelTokensMax?: number
  readonly profile?: TimingProfile
  readonly speedup?: number
  readonly tokenizer?: SimTokenizer
  /** False publishes nothing. */
  readonly events?: Partial<EventSocketOptions> | false
  readonly hashes?: 'integers' | 'bytes'
  /** vLLM's PYTHONHASHSEED. */
  readonly hashSeed?: string
  /** vLLM: `VLLM_SERVER_DEV_MODE=1`, `--enable-scale-out`, `--enable-request-id-headers`, `--enable-tokenizer-info-endpoint`. */
  readonly isDevMode?: boolean
  readonly isScaleOut?: boolean
  readonly isRequestIdEchoed?: boolean
  readonly isTokenizerInfo?: boolean
  /** `--reasoning-parser` of an SGLang: what becomes of thoughts in messages. Null: it has none. */
  readonly reasoningParser?: string | null
  /** vLLM: `VLLM_ENABLE_RESPONSES_API_STORE=1`. */
  readonly isResponseStore?: boolean
  /** vLLM `--enable-prompt-tokens-details`, SGLang `--enable-cache-report`. */
  readonly isCacheReported?: boolean
  /** Requests that may wait before new ones get 503 (SGLang `--max-queued-requests`); absent: no limit. */
  readonly queuedMax?: number
  readonly apiKey?: string
  /** SGLang: ends by what a real one ends by, such as a token id that its tokenizer does not have. */
  readonly isFragile?: boolean
  /** SGLang's `/health` generates a token and looks once a second. */
  readonly healthMs?: number
  readonly decodeLogInterval?: number
  readonly pair?: Partial<PairOptions> & Pick<PairOptions, 'kind'>
  readonly faults?: readonly Fault[]
  /** Seeds faults and request ids. */
  readonly seed?: number
  /** Number of this engine in its fleet, for fault scripts. */
  readonly worker?: number
}

export interface ResolvedOptions extends Required<Omit<SimEngineOptions, 'events' | 'apiKey' | 'queuedMax' | 'pair'>> {
  readonly events: EventSocketOptions | undefined
  readonly apiKey: string | undefined
  readonly queuedMax: number
  readonly pair: PairOptions | undefined
}

/** Throws `WR_INVALID_ARGUMENT`. */
export function resolveOptions(options: SimEngineOptions): ResolvedOptions {
  if (options.version !== undefined) requireVersion(options.engine, options.version)
  const events: EventSocketOptions | undefined =
    options.events === false
      ? undefined
      : { port: 0, replayPort: 0, topic: 'kv-events', bufferSteps: 10_000, ...options.events }
  return {
    version: recordedVersions[options.engine],
    host: '127.0.0.1',
    port: 0,
    models: ['sim'],
    task: 'generate',
    root: './model',
    adapters: [],
    ranks: 1,
    blockTokens: options.engine === 'vllm' ? 16 : 64,
    blocks: 16_384,
    hostBlocks: 0,
    sequencesMax: 256,
    batchedTokensMax: 8192,
    modelTokensMax: 131_072,
    profile: dynamoProfile,
    speedup: 1,
    tokenizer: options.tokenizer ?? createSimTokenizer(),
    hashes: 'integers',
    hashSeed: 'vllm-none-hash',
    isDevMode: false,
    isScaleOut: false,
    isRequestIdEchoed: false,
    isTokenizerInfo: false,
    reasoningParser: null,
    isResponseStore: false,
    isCacheReported: true,
    isFragile: false,
    healthMs: 1000,
    decodeLogInterval: 40,
    faults: [],
    seed: 1,
    worker: 0,
    ...definedOf(options),
    events,
    apiKey: options.apiKey,
    queuedMax: options.queuedMax ?? Number.POSITIVE_INFINITY,
    pair: options.pair && {
      port: 0,
      store: 'shared',
      leaseMs: 30_000,
      transferMsPerToken: 0.002,
      connectMs: 5000,
      rendezvousMs: 300_000,
      heartbeatMs: 5000,
      ...options.pair,
    },
  }
}

export function modelOptions(options: ResolvedOptions): Partial<EngineOptions> {
  return {
    blocks: options.blocks,
    blockTokens: options.blockTokens,
    hostBlocks: options.hostBlocks,
    sequencesMax: options.sequencesMax,
    batchedTokensMax: options.batchedTokensMax,
    modelTokensMax: options.modelTokensMax,
    profile: options.profile,
    speedup: options.speedup,
  }
}

function definedOf<T extends object>(options: T): T {
  return Object.fromEntries(Object.entries(options).filter(([, value]) => value !== undefined)) as T
}
