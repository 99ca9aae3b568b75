/** One trace, one fleet, several policies and settings: what `warmroute replay` runs, as plain data in and out. */
import type { RouterConfigInput } from '../../core/protocol/index.js'
import { WarmrouteError } from '../../core/protocol/index.js'
import type { EngineOptions } from '../engine/engine.js'
import { dynamoEngine } from '../engine/engine.js'
import type { TimingProfile } from '../engine/timing.js'
import { dynamoProfile } from '../engine/timing.js'
import { achievableReuse, idealReplay } from './ideal.js'
import { answerTokensOf, judgeSize } from './limits.js'
import { createPolicy, isRouterPolicy, judgePolicy } from './policies.js'
import type { PolicyName } from './policies.js'
import { replay } from './replay.js'
import type { ReplayReport } from './report.js'
import { readSettings } from './settings.js'
import type { Sweep } from './settings.js'
import { smoothArrivals } from './smooth-arrivals.js'
import type { TraceRequest } from './trace.js'

export interface SlowShare {
  /** Share of the workers, the first ones. */
  readonly share: number
  /** How many times slower. */
  readonly factor: number
}

export interface ExperimentOptions {
  readonly workers: number
  readonly policies: readonly PolicyName[]
  readonly blockTokens?: number
  readonly blocks?: number
  readonly traceBlockTokens?: number
  readonly arrivalSpeedup?: number
  readonly smoothMs?: number
  readonly eventDelayMs?: number
  readonly routers?: number
  /** The first of the workers that only prefill; the others decode. */
  readonly prefillWorkers?: number
  /** For the KV of a prompt on its way between them. */
  readonly transferMsPerToken?: number
  readonly profile?: TimingProfile
  readonly slow?: SlowShare
  /** Share of the requests whose answers come in one piece, spread evenly over the trace. */
  readonly wholeShare?: number
  /** `key=value` in the names of the config file, for `warm` and `dynamo`. */
  readonly settings?: readonly string[]
  readonly sweep?: Sweep
  readonly seed?: number
  readonly isIdealWanted?: boolean
  /** Called now and then: which run of how many, and how much of it is done. */
  readonly progress?: (step: { label: string; run: number; runs: number; done: number; total: number }) => void
}

export interface PolicyResult extends ReplayReport {
  readonly policy: PolicyName | 'ideal'
  /** What was set beyond the policy's own settings; empty for policies that have none. */
  readonly settings: Readonly<Record<string, string>>
  /** What `reuse` would be with one cache that holds everything that arrived. */
  readonly reuse_achievable: number
  /** Answers that end before the trace has them end, since prompt and answer are longer than the KV of an engine. */
  readonly answers_cut: number
}

interface Run {
  readonly policy: PolicyName
  readonly settings: readonly string[]
  readonly config: RouterConfigInput
}

/** About 64 GB/s for the KV of an 8B model. */
export const defaultTransferMsPerToken = 0.002

/** Runs every policy over the same arrivals. The same options give the same results, byte for byte. */
export function runExperiment(trace: readonly TraceRequest[], options: ExperimentOptions): PolicyResult[] {
  const { workers, seed = 1, routers = 1, arrivalSpeedup = 1, smoothMs = 0, traceBlockTokens = 512 } = options
  const { prefillWorkers = 0, transferMsPerToken = defaultTransferMsPerToken } = options
  const engine: EngineOptions = {
    ...dynamoEngine,
    profile: options.profile ?? dynamoProfile,
    ...(options.blockTokens === undefined ? {} : { blockTokens: options.blockTokens }),
    ...(options.blocks === undefined ? {} : { blocks: options.blocks }),
  }
  judgeSize(trace, engine, {
    workers,
    routers,
    arrivalSpeedup,
    smoothMs,
    eventDelayMs: options.eventDelayMs ?? 0,
    transferMsPerToken,
    slowFactor: options.slow?.factor ?? 1,
  })
  const smoothed = smoothMs > 0 ? smoothArrivals(trace, smoothMs, seed) : trace
  const arrivals = withWholeAnswers(smoothed, options.wholeShare ?? 0)
  const runs = plan(options)
  const answered = arrivals.filter((request) => answerTokensOf(request, engine) > 0)
  const ofTrace = {
    reuse_achievable: achievableReuse(answered, engine.blockTokens, traceBlockTokens),
    answers_cut: answered.filter((request) => answerTokensOf(request, engine) < request.outputTokens).length,
  }
  const results: PolicyResult[] = runs.map(({ policy, settings, config }, index) => {
    const router = createPolicy(policy, { workers, seed, routers, prefillWorkers, settings: config })
    const label = [policy, ...settings].join(' ')
    const tell = (done: number): void =>
      options.progress?.({ label, run: index + 1, runs: runs.length, done, total: trace.length })
    tell(0)
    const report = replay(arrivals, {
      workers,
      ...(prefillWorkers > 0 ? { pairs: { prefillWorkers, transferMsPerToken } } : {}),
      policy: router,
      engine,
      arrivalSpeedup,
      traceBlockTokens,
      eventDelayMs: options.eventDelayMs ?? 0,
      // Dynamo's simulator tells of blocks when a pass is scheduled; real engines when it is computed.
      eventsLeave: engine.profile.kind === 'polynomial' ? 'scheduled' : 'computed',
      worker: (worker) => slowdownOf(worker, workers, options.slow),
      progress: tell,
    })
    return { policy, settings: settingsOf(settings), ...report, ...ofTrace }
  })
  if (options.isIdealWanted)
    results.push({
      policy: 'ideal',
      settings: {},
      ...idealReplay(arrivals, engine, arrivalSpeedup, traceBlockTokens),
      ...ofTrace,
    })
  return results
}

/**
 * A sweep multiplies the runs of policies that have settings; the others stand beside it once. Settings and policies are judged here,
 * before the first run, so that a typing error costs a message and not a wait.
 */
function plan({ policies, settings = [], sweep, workers, routers = 1, prefillWorkers = 0 }: ExperimentOptions): Run[] {
  if ((sweep || settings.length > 0) && !policies.some(isRouterPolicy))
    throw new WarmrouteError('WR_INVALID_ARGUMENT', {
      reason: `${sweep ? '--sweep' : '--set'}: settings are of warm and dynamo, and neither runs`,
    })
  for (const policy of policies) judgePolicy(policy, { workers, routers, prefillWorkers })
  const runOf = (policy: PolicyName, own: readonly string[]): Run => ({
    policy,
    settings: own,
    config: readSettings(own),
  })
  return policies.flatMap((policy): Run[] => {
    if (!isRouterPolicy(policy)) return [runOf(policy, [])]
    if (!sweep) return [runOf(policy, settings)]
    return sweep.values.map((value) => runOf(policy, [...settings, `${sweep.key}=${value}`]))
  })
}

function settingsOf(assignments: readonly string[]): Record<string, string> {
  return Object.fromEntries(
    assignments.map((text) => [text.slice(0, text.indexOf('=')), text.slice(text.indexOf('=') + 1)]),
  )
}

/** The same requests for every policy and seed. */
function withWholeAnswers(trace: readonly TraceRequest[], share: number): readonly TraceRequest[] {
  if (share === 0) return trace
  const step = (Math.sqrt(5) - 1) / 2 // of the golden ratio: no period of a trace goes with it
  return trace.map((request, index) => ({ ...request, isWhole: (index * step) % 1 < share }))
}

function slowdownOf(worker: number, workers: number, slow: SlowShare | undefined): Partial<EngineOptions> {
  if (!slow || worker >= Math.round(slow.share * workers)) return {}
  return { speedup: 1 / slow.factor }
}
