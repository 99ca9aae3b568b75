/** What a running router is assembled from, and what is reported of each address. */
import type { PrefillCoefficients } from '../../core/load/index.js'
import type { RouterConfig } from '../../core/protocol/index.js'
import type { PolicyConfig } from '../../core/queue/index.js'
import type { PrefillEstimator } from '../../core/router/index.js'
import type { EngineFacts } from '../../engines/index.js'
import type { GatewayOptions, Log, ModelSpec, PolicyName, WorkerRole } from '../../server/index.js'
import type { ModelStatus } from '../../tokens/index.js'
import type { UsualPorts } from './find-sockets.js'
import type { TokenPlaces } from './token-places.js'
import type { KeeperState, KeeperTimes, WorkerAddress } from './worker-keeper.js'
import type { ModeVerdict } from './worker-mode.js'

export interface AssemblyOptions {
  readonly workers: readonly WorkerAddress[]
  readonly config: RouterConfig
  readonly policy?: 'kv' | PolicyName
  /** Classes of requests, from `router_policy_config`. */
  readonly policies?: PolicyConfig | undefined
  /** How long a prefill takes, or `online`: learned; the policy `warm` learns in any case. */
  readonly prefillLoadEstimator?: PrefillEstimator | 'online' | undefined
  /** How each model judges load and keeps sessions. */
  readonly rules?: (model: string) => Pick<ModelSpec, 'thresholds' | 'monitor' | 'sessionAffinityTtlSecs'>
  /** Remote prefill or nothing. */
  readonly enforceDisagg?: boolean
  /** A prefill that failed is done by the decode worker; not where disaggregation is enforced. */
  readonly prefillFallback?: boolean
  readonly gateway?: Omit<GatewayOptions, 'models' | 'log' | 'steward'>
  /** Where tokenizers are looked for; the engine is asked last. */
  readonly tokenPlaces?: TokenPlaces | undefined
  readonly times?: Partial<KeeperTimes>
  /** Where events are looked for, of engines that do not say it. */
  readonly usualPorts?: UsualPorts | undefined
  /** Between two questions for the events of a TensorRT-LLM server; 0: they are not asked for. */
  readonly trtllmPollMs?: number
  /** Where what is known of caches outlives this process, and how often it is written. */
  readonly snapshot?: { readonly path: string; readonly intervalMs: number } | undefined
  /** Where policy warm starts to learn from. */
  readonly prefillProfile?: PrefillCoefficients | undefined
  readonly decisionLog?: { readonly path: string; readonly bytesMax: number } | undefined
  readonly log?: Log
}

/** What a person wants to know of one address. */
export interface AddressReport {
  readonly workerId: bigint
  readonly url: string
  readonly state: KeeperState
  /** Why it is not in, in words that follow its name; undefined: it is. */
  readonly absence: string | undefined
  readonly facts: EngineFacts | undefined
  readonly model: string | undefined
  readonly role: WorkerRole | undefined
  readonly tokens: ModelStatus | undefined
  readonly verdict: ModeVerdict | undefined
  /** It takes requests, and its tokens are still being looked for. */
  readonly isJoining: boolean
  /** Event batches applied since it joined. */
  readonly batches: number
  /** How often the engine was seen to be another process. */
  readonly restarts: number
}
