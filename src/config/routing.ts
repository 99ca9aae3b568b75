/** The options of the router: `KvRouterConfig` as file keys, environment and flags. Ranges are judged in `core/protocol`. */
import { z } from 'zod'
import type { RouterConfig, RouterConfigInput } from '../core/protocol/index.js'
import {
  acceptedBy,
  compatModes,
  completeRouterConfig,
  defaultRouterConfig,
  disaggPolicies,
  prefillLoadModels,
  queuePolicies,
  routingPolicies,
  sharedCacheTypes,
  trackingHashes,
  WarmrouteError,
} from '../core/protocol/index.js'
import type { OptionGroup } from './group.js'
import { defineGroup } from './group.js'
import type { Option, OptionExtras } from './option.js'
import { choice, number, optionalNumber, optionalText, structure, toggle } from './option.js'

const defaults = defaultRouterConfig

/** Names of an option that upstream calls `router_<name>` on the command line and in the environment. */
function upstream(name: string, extras: OptionExtras = {}): OptionExtras {
  return {
    ...extras,
    flags: [`--router-${name}`, ...(extras.flags ?? [])],
    env: [`DYN_ROUTER_${name.replaceAll('-', '_').toUpperCase()}`, ...(extras.env ?? [])],
  }
}

/** Names of an option whose own name already is upstream's. */
function sameName(env: string, extras: OptionExtras = {}): OptionExtras {
  return { ...extras, env: [env, ...(extras.env ?? [])] }
}

const asksNoSharedCache = 'serve asks no shared cache; a KvRouter that is given one does'

const options = {
  overlapScoreCredit: number(
    defaults.overlapScoreCredit,
    'Blocks of prefill that one block cached on the device saves. 0 ignores caches, stops listening for events and balances by load alone.',
    upstream('kv-overlap-score-credit', { accepts: acceptedBy('overlapScoreCredit') }),
  ),
  prefillLoadScale: number(
    defaults.prefillLoadScale,
    'How much a block to prefill weighs against a block to decode. 0 ignores prefill work and caches with it.',
    upstream('prefill-load-scale', { accepts: acceptedBy('prefillLoadScale') }),
  ),
  overlapScoreWeight: optionalNumber(
    undefined,
    'The old name of prefill_load_scale; it wins over it, and 0 sets overlap_score_credit to 0 as well.',
    upstream('kv-overlap-score-weight', {
      accepts: 'a number from 0, or none',
      flags: ['--kv-overlap-score-weight'],
      env: ['DYN_OVERLAP_SCORE_WEIGHT'],
      deprecated: 'use prefill_load_scale',
    }),
  ),
  hostCacheHitWeight: number(
    defaults.hostCacheHitWeight,
    'Worth of a block in host memory, as a share of one on the device. 0 ignores that tier.',
    upstream('host-cache-hit-weight', { accepts: acceptedBy('hostCacheHitWeight') }),
  ),
  diskCacheHitWeight: number(
    defaults.diskCacheHitWeight,
    'Worth of a block on disk or in external storage, as a share of one on the device. 0 ignores those tiers.',
    upstream('disk-cache-hit-weight', { accepts: acceptedBy('diskCacheHitWeight') }),
  ),
  overlapScoreCreditDecay: number(
    defaults.overlapScoreCreditDecay,
    'How fast the device credit of a rank fades with prefill work queued there beyond the idlest rank. 0 never.',
    upstream('kv-overlap-score-credit-decay', { accepts: acceptedBy('overlapScoreCreditDecay') }),
  ),
  decodeActiveRequestWeight: number(
    defaults.decodeActiveRequestWeight,
    'Blocks that each running request adds to the cost of its rank. 0 counts blocks only.',
    upstream('decode-active-request-weight', { accepts: acceptedBy('decodeActiveRequestWeight') }),
  ),
  routerTemperature: number(
    defaults.routerTemperature,
    'Randomness of the choice. 0 always takes the cheapest rank; 1 gives the dearest 0.37 times the weight of the cheapest.',
    sameName('DYN_ROUTER_TEMPERATURE', { accepts: acceptedBy('routerTemperature') }),
  ),
  useKvEvents: toggle(
    defaults.useKvEvents,
    "Learn what is cached from the engines' events. Off: predict it from our own decisions.",
    sameName('DYN_ROUTER_USE_KV_EVENTS', { flags: ['--router-kv-events', '--kv-events'], env: ['DYN_USE_KV_EVENTS'] }),
  ),
  durableKvEvents: toggle(
    defaults.durableKvEvents,
    'Events over a durable stream.',
    upstream('durable-kv-events', { noEffect: 'state is rebuilt from the workers, never from a stored stream' }),
  ),
  routerReplicaSync: toggle(
    defaults.routerReplicaSync,
    'Share bookings with the other replicas, so that each sees the load all of them cause.',
    sameName('DYN_ROUTER_REPLICA_SYNC', {
      noEffect: 'serve knows no other replicas; a KvRouter that is given a way to them does it',
    }),
  ),
  routerTrackActiveBlocks: toggle(
    defaults.routerTrackActiveBlocks,
    'Count the blocks of running requests as load. Off: decode load is unknown.',
    sameName('DYN_ROUTER_TRACK_ACTIVE_BLOCKS'),
  ),
  routerTrackOutputBlocks: toggle(
    defaults.routerTrackOutputBlocks,
    'Count blocks that a request generates, too.',
    sameName('DYN_ROUTER_TRACK_OUTPUT_BLOCKS'),
  ),
  routerAssumeKvReuse: toggle(
    defaults.routerAssumeKvReuse,
    'Running requests with one prefix share its blocks. Off: every request counts all of its blocks.',
    sameName('DYN_ROUTER_ASSUME_KV_REUSE'),
  ),
  routerTrackPrefillTokens: toggle(
    defaults.routerTrackPrefillTokens,
    'Count prompt tokens that are still to be prefilled as load. Off: only decode load counts, and nothing is ever parked.',
    sameName('DYN_ROUTER_TRACK_PREFILL_TOKENS'),
  ),
  routerPrefillLoadModel: choice(
    prefillLoadModels,
    defaults.routerPrefillLoadModel,
    'Let the prefill load of the oldest request of a rank fall while it is computed; needs `prefill_times`.',
    sameName('DYN_ROUTER_PREFILL_LOAD_MODEL'),
  ),
  routerSnapshotThreshold: optionalNumber(
    defaults.routerSnapshotThreshold,
    'Events between two stored snapshots.',
    sameName('DYN_ROUTER_SNAPSHOT_THRESHOLD', {
      accepts: acceptedBy('routerSnapshotThreshold'),
      noEffect: 'snapshots are taken by time, see serve.snapshot_interval_secs',
    }),
  ),
  routerResetStates: toggle(
    defaults.routerResetStates,
    'Forget stored state at start.',
    sameName('DYN_ROUTER_RESET_STATES', {
      noEffect: 'stored state that no longer holds is found out and dropped; serve.snapshot_folder=none stores none',
    }),
  ),
  routerTtlSecs: number(
    defaults.routerTtlSecs,
    'How long a predicted block is believed in when use_kv_events is off.',
    sameName('DYN_ROUTER_TTL_SECS', { accepts: acceptedBy('routerTtlSecs') }),
  ),
  routerPredictedTtlSecs: optionalNumber(
    defaults.routerPredictedTtlSecs,
    'Believe in the blocks of a routed prompt for this long before events confirm them. None: wait for events.',
    sameName('DYN_ROUTER_PREDICTED_TTL_SECS', { accepts: acceptedBy('routerPredictedTtlSecs') }),
  ),
  routerQueueThreshold: optionalNumber(
    defaults.routerQueueThreshold,
    'Park requests while every eligible rank has more prefill tokens booked than this many engine steps. 0 parks as soon as no rank is idle; none never parks.',
    sameName('DYN_ROUTER_QUEUE_THRESHOLD', { accepts: acceptedBy('routerQueueThreshold') }),
  ),
  routerQueuePolicy: choice(
    queuePolicies,
    defaults.routerQueuePolicy,
    'Who leaves the queue first: the oldest, the newest, or the one with the least work left.',
    sameName('DYN_ROUTER_QUEUE_POLICY'),
  ),
  routerQueueParkedMax: number(
    defaults.routerQueueParkedMax,
    'Requests that may be parked at once; the next one is refused.',
    { accepts: acceptedBy('routerQueueParkedMax') },
  ),
  indexMaxBlocks: number(
    defaults.indexMaxBlocks,
    'Blocks that the index holds over all workers, 31 to 43 bytes each. At the cap the oldest knowledge goes, which costs credit and nothing else.',
    { accepts: acceptedBy('indexMaxBlocks') },
  ),
  indexMaxBlocksPerRank: optionalNumber(
    defaults.indexMaxBlocksPerRank,
    'The same for each rank of a worker. None: only the whole is capped.',
    { accepts: acceptedBy('indexMaxBlocksPerRank') },
  ),
  indexShards: number(
    defaults.indexShards,
    'Memories that the index is spread over, by rank. One ends at 4 GiB, about 100 million blocks; every lookup asks all of them.',
    { accepts: acceptedBy('indexShards') },
  ),
  policy: choice(
    routingPolicies,
    'warm',
    'What a worker costs: `warm` in milliseconds to the first token, learned from the fleet; `dynamo` in blocks, as upstream.',
  ),
  routerLateBinding: toggle(
    true,
    'Hold a request until its best worker is about to be free; with policy warm only. Turn it off where several routers that do not share their bookings serve the same workers.',
  ),
  routerPolicyConfig: optionalText(
    'A YAML file with policy classes: thresholds, limits and shares of the queue for kinds of requests.',
    sameName('DYN_ROUTER_POLICY_CONFIG'),
  ),
  routerPrefillPolicy: optionalText(
    'Worker-selection policy of the prefill stage: the name of an instance in `router_policy_config`.',
    sameName('DYN_ROUTER_PREFILL_POLICY'),
  ),
  routerDecodePolicy: optionalText(
    'Worker-selection policy of the decode stage: the name of an instance in `router_policy_config`.',
    sameName('DYN_ROUTER_DECODE_POLICY'),
  ),
  routerWorkerSelectionPolicy: optionalText(
    'Worker-selection policy of a stage that names none of its own.',
    sameName('DYN_ROUTER_WORKER_SELECTION_POLICY'),
  ),
  routerOverlapRefreshAfterSecs: number(
    defaults.routerOverlapRefreshAfterSecs,
    'A request that was parked for this long asks the index again before it is placed. 0 or less: never.',
    sameName('DYN_ROUTER_OVERLAP_REFRESH_AFTER_SECS'),
  ),
  routerActiveRequestExpirySecs: {
    ...number(
      defaults.routerActiveRequestExpirySecs,
      'A booking that nobody freed for this long is dropped.',
      sameName('DYN_ROUTER_ACTIVE_REQUEST_EXPIRY_SECS', { accepts: acceptedBy('routerActiveRequestExpirySecs') }),
    ),
    schema: z.number().int().min(1), // judged here as well: upstream ignores any other value of its variable
  },
  routerEventThreads: number(
    defaults.routerEventThreads,
    'Threads that apply events.',
    sameName('DYN_ROUTER_EVENT_THREADS', {
      accepts: acceptedBy('routerEventThreads'),
      noEffect: 'one thread applies events, faster than engines send them',
    }),
  ),
  routerMinInitialWorkers: number(
    defaults.routerMinInitialWorkers,
    'A model is not ready until this many of its workers could serve at once. 0 starts at once.',
    sameName('DYN_ROUTER_MIN_INITIAL_WORKERS', {
      accepts: acceptedBy('routerMinInitialWorkers'),
      isStrictEnv: true,
    }),
  ),
  skipInitialWorkerWait: toggle(
    defaults.skipInitialWorkerWait,
    'Start without waiting, whatever router_min_initial_workers says.',
  ),
  useRemoteIndexer: toggle(
    defaults.useRemoteIndexer,
    'Ask an index service instead of keeping an index. `warmroute serve` keeps its own, and refuses this.',
    sameName('DYN_USE_REMOTE_INDEXER'),
  ),
  serveIndexer: toggle(
    defaults.serveIndexer,
    'Offer our index to other routers.',
    sameName('DYN_SERVE_INDEXER', {
      noEffect: 'serve offers its index to nobody; a KvRouter that is given a way does it',
    }),
  ),
  sharedCacheMultiplier: number(
    0.5, // the command line's default upstream; the library's own is 0
    'Worth of a block in a cache shared by all workers, as a share of one on the device. 0 ignores it.',
    sameName('DYN_SHARED_CACHE_MULTIPLIER', {
      accepts: acceptedBy('sharedCacheMultiplier'),
      noEffect: asksNoSharedCache,
    }),
  ),
  sharedCacheType: choice(
    sharedCacheTypes,
    defaults.sharedCacheType,
    'Which shared cache to ask.',
    sameName('DYN_SHARED_CACHE_TYPE', { noEffect: asksNoSharedCache }),
  ),
  routerTrackingHash: choice(
    trackingHashes,
    defaults.routerTrackingHash,
    'How blocks of running requests are named between replicas; keyed names reveal nothing of the prompt.',
    sameName('DYN_ROUTER_TRACKING_HASH', { isStrictEnv: true }),
  ),
  routerTrackingKeyFile: optionalText('File with the 32 bytes of the key.', sameName('DYN_ROUTER_TRACKING_KEY_FILE')),
  routerTrackingKeyId: optionalText('Name of the key, equal on all replicas.', sameName('DYN_ROUTER_TRACKING_KEY_ID')),
  conditionalDisaggEnabled: toggle(
    defaults.conditionalDisaggEnabled,
    'Skip the separate prefill stage where it would not pay.',
    { flags: ['--router-conditional-disagg'], env: ['DYN_ROUTER_CONDITIONAL_DISAGG'] },
  ),
  conditionalDisaggPolicy: choice(
    disaggPolicies,
    defaults.conditionalDisaggPolicy,
    'What decides it: prompt length, prefill load, or either.',
    { env: ['DYN_ROUTER_CONDITIONAL_DISAGG_POLICY'] },
  ),
  conditionalDisaggEffIslThreshold: number(
    defaults.conditionalDisaggEffIslThreshold,
    'Prompts with fewer uncached tokens than this stay on the decode worker.',
    {
      accepts: acceptedBy('conditionalDisaggEffIslThreshold'),
      env: ['DYN_ROUTER_CONDITIONAL_DISAGG_EFF_ISL_THRESHOLD'],
    },
  ),
  conditionalDisaggEffIslRatioThreshold: number(
    defaults.conditionalDisaggEffIslRatioThreshold,
    'Prompts with a smaller uncached share than this stay on the decode worker.',
    {
      accepts: acceptedBy('conditionalDisaggEffIslRatioThreshold'),
      env: ['DYN_ROUTER_CONDITIONAL_DISAGG_EFF_ISL_RATIO_THRESHOLD'],
    },
  ),
  conditionalDisaggPrefillBusyThreshold: optionalNumber(undefined, 'Prefill workers above this load are passed over.', {
    accepts: acceptedBy('conditionalDisaggPrefillBusyThreshold'),
    env: ['DYN_ROUTER_CONDITIONAL_DISAGG_PREFILL_BUSY_THRESHOLD'],
  }),
  conditionalDisaggDecodeBusyThreshold: optionalNumber(undefined, 'Decode workers above this load do not prefill.', {
    accepts: acceptedBy('conditionalDisaggDecodeBusyThreshold'),
    env: ['DYN_ROUTER_CONDITIONAL_DISAGG_DECODE_BUSY_THRESHOLD'],
  }),
  conditionalDisaggConfig: structure(
    z
      .strictObject({
        policy: z.enum(disaggPolicies).optional(),
        eff_isl_threshold: z.number().optional(),
        eff_isl_ratio_threshold: z.number().optional(),
        prefill_busy_threshold: z.number().optional(),
        decode_busy_threshold: z.number().optional(),
      })
      .optional(),
    undefined,
    'The five settings above as one object; needs conditional_disagg_enabled.',
    'an object with `policy`, `eff_isl_threshold`, `eff_isl_ratio_threshold`, `prefill_busy_threshold`, `decode_busy_threshold`',
    {
      flags: ['--router-conditional-disagg-config'],
      env: ['DYN_ROUTER_CONDITIONAL_DISAGG_CONFIG'],
      isStrictEnv: true,
    },
  ),
  loadAware: toggle(
    false,
    'Balance by load alone: no events, no credit for caches, no index service, no shared cache.',
    sameName('DYN_ROUTER_LOAD_AWARE'),
  ),
  compat: choice(
    compatModes,
    defaults.compat,
    "Where Warmroute is safer than upstream, behave as that version of upstream. `default` is Warmroute's own.",
  ),
} satisfies Record<string, Option>

export const routingGroup: OptionGroup<RouterConfig> = defineGroup(
  'routing',
  'How a worker is chosen, what counts as load, and when a request waits.',
  options,
  (values, isSet) => {
    const { conditionalDisaggConfig, loadAware, routerQueueThreshold, overlapScoreWeight, ...others } = values
    const { routerWorkerSelectionPolicy: ofBoth, ...plain } = others
    if (conditionalDisaggConfig && !plain.conditionalDisaggEnabled)
      throw new WarmrouteError('WR_INVALID_CONFIG', {
        issues: [
          {
            field: 'conditionalDisaggConfig',
            message: 'conditional_disagg_config requires conditional_disagg_enabled=true',
          },
        ],
      })
    return completeRouterConfig({
      ...(plain as RouterConfigInput),
      routerPrefillPolicy: plain.routerPrefillPolicy ?? ofBoth,
      routerDecodePolicy: plain.routerDecodePolicy ?? ofBoth,
      ...(overlapScoreWeight === undefined ? {} : { overlapScoreWeight }),
      ...(isSet('routerQueueThreshold') ? { routerQueueThreshold } : {}), // its default depends on compat
      ...fromDisaggObject(conditionalDisaggConfig),
      ...(loadAware ? loadAwarePreset : {}),
    })
  },
)

/** What `--load-aware` stands for upstream. */
const loadAwarePreset = {
  overlapScoreCredit: 0,
  useKvEvents: false,
  durableKvEvents: false,
  routerTrackActiveBlocks: true,
  routerAssumeKvReuse: false,
  routerTrackPrefillTokens: true,
  useRemoteIndexer: false,
  serveIndexer: false,
  sharedCacheMultiplier: 0,
  sharedCacheType: 'none',
  routerPredictedTtlSecs: undefined,
} as const

function fromDisaggObject(object: Readonly<Partial<Record<string, unknown>>> | undefined): RouterConfigInput {
  if (!object) return {}
  const named = {
    conditionalDisaggPolicy: object['policy'],
    conditionalDisaggEffIslThreshold: object['eff_isl_threshold'],
    conditionalDisaggEffIslRatioThreshold: object['eff_isl_ratio_threshold'],
    conditionalDisaggPrefillBusyThreshold: object['prefill_busy_threshold'],
    conditionalDisaggDecodeBusyThreshold: object['decode_busy_threshold'],
  }
  return Object.fromEntries(Object.entries(named).filter(([, value]) => value !== undefined)) as RouterConfigInput
}
