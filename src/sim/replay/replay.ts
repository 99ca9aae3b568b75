/**
 * A trace through a fleet of engines on a virtual clock. The routing policy is handed in and hears what a router would:
 * events with their delay, first tokens, ends. The same inputs give the same report, byte for byte.
 */
import { VirtualClock } from '../clock.js'
import { dynamoEngine, Engine } from '../engine/engine.js'
import type { EngineListener, EngineOptions } from '../engine/engine.js'
import { EngineRequest } from '../engine/request.js'
import type { BlockContent, FinishReason } from '../engine/request.js'
import { BlockKeys } from './block-keys.js'
import { ReplayMeter } from './report.js'
import type { ReplayReport } from './report.js'
import type { TraceRequest } from './trace.js'

/**
 * What a policy may know of a request: its prompt, not how long its answer will be.
 *
 * @example
 * import type { ReplayRequest } from 'warmroute/sim'
 *
 * const bySession = (request: ReplayRequest): number => request.blockKeys[0]! % 4
 */
export interface ReplayRequest {
  readonly index: number
  readonly arrivalMs: number
  readonly promptTokens: number
  /** Keys of the full prompt blocks: equal keys mean equal content behind equal content. */
  readonly blockKeys: Float64Array
  /** Its answer comes in one piece: a policy hears of its first token when it has ended. */
  readonly isWhole: boolean
}

/**
 * What a policy sees of the fleet that it routes for.
 *
 * @example
 * import type { Fleet, ReplayPolicy } from 'warmroute/sim'
 *
 * // Everything goes to the last worker.
 * class Last implements ReplayPolicy {
 *   #workers = 0
 *   start(fleet: Fleet): void {
 *     this.#workers = fleet.workers
 *   }
 *   route(): number {
 *     return this.#workers - 1
 *   }
 * }
 */
export interface Fleet {
  readonly clock: VirtualClock
  readonly workers: number
  readonly engine: EngineOptions
  /** Sends a request that `route` did not place at once. */
  dispatch(request: ReplayRequest, worker: number): void
}

/**
 * A router in the replay. Every method after `route` is optional.
 *
 * @example
 * import { parseMooncake, replay, type ReplayPolicy } from 'warmroute/sim'
 *
 * const trace = parseMooncake('{"timestamp":0,"input_length":1024,"output_length":8,"hash_ids":[1,2]}')
 * const byLength: ReplayPolicy = { route: ({ promptTokens }) => (promptTokens > 2000 ? 1 : 0) }
 * console.log(replay(trace, { workers: 2, policy: byLength }).workers[0]!.requests) // => 1
 */
export interface ReplayPolicy {
  /** The worker for a request that arrives now; -1 holds it until the policy calls `fleet.dispatch`. */
  route(request: ReplayRequest, nowMs: number): number
  /** Called once before the first request. */
  start?(fleet: Fleet): void
  /** Blocks became cached. `keys` follow each other; `parent` is the key before the first, or -1. Valid during the call. */
  stored?(worker: number, keys: Float64Array, parent: number, nowMs: number): void
  removed?(worker: number, key: number, nowMs: number): void
  /** Where a request decodes whose prefill just ended on another worker; asked only in a fleet of pairs. */
  routeDecode?(request: ReplayRequest, nowMs: number): number
  /** A prefill ended on a worker that only prefills; its KV is on the way to `decodeWorker`. */
  prefillDone?(request: ReplayRequest, worker: number, decodeWorker: number, nowMs: number): void
  firstToken?(request: ReplayRequest, worker: number, nowMs: number): void
  /** Each time the answer fills a block: `blocks` is how many the request holds by now. */
  outputBlock?(request: ReplayRequest, worker: number, blocks: number, nowMs: number): void
  finished?(request: ReplayRequest, worker: number, nowMs: number): void
}

/** Workers `0 .. prefillWorkers - 1` only prefill, the others decode, or do both if a request is routed to them directly. */
export interface PairedFleet {
  readonly prefillWorkers: number
  readonly transferMsPerToken: number
}

/**
 * The fleet of a replay, and who routes in it.
 *
 * @example
 * import { type ReplayOptions, roundRobin } from 'warmroute/sim'
 *
 * const options: ReplayOptions = { workers: 4, policy: roundRobin(4), eventDelayMs: 5, engine: { blocks: 8192 } }
 */
export interface ReplayOptions {
  readonly workers: number
  readonly pairs?: PairedFleet
  readonly policy: ReplayPolicy
  readonly engine?: Partial<EngineOptions>
  /** Differences of one worker, for fleets of unequal machines. */
  readonly worker?: (worker: number) => Partial<EngineOptions>
  /** Divides the arrival times. */
  readonly arrivalSpeedup?: number
  /** Milliseconds from an engine's event to the policy's knowledge of it. */
  readonly eventDelayMs?: number
  /** When an event leaves: as soon as its pass is scheduled (Dynamo's simulator) or with the pass's tokens (vLLM). */
  readonly eventsLeave?: 'scheduled' | 'computed'
  readonly traceBlockTokens?: number
  /** Called now and then with the number of requests done. */
  readonly progress?: (done: number) => void
}

/** One stay of a job in one engine. */
interface Leg {
  readonly job: Job
  readonly kind: 'whole' | 'prefill' | 'decode'
}

interface Job extends ReplayRequest {
  arrivalMs: number // of a later turn: known when the turn before it has ended
  readonly follows: TraceRequest['follows']
  readonly outputTokens: number
  readonly content: BlockContent
  firstTokenMs: number
  lastTokenMs: number
}

/**
 * Runs a trace through a fleet of simulated engines on a virtual clock: hours in seconds, the same every time.
 *
 * @example
 * import { CorePolicy, parseMooncake, replay, roundRobin } from 'warmroute/sim'
 *
 * const trace = parseMooncake('{"timestamp":0,"input_length":1024,"output_length":8,"hash_ids":[1,2]}')
 * const options = { workers: 4, arrivalSpeedup: 2 }
 * const warm = replay(trace, { ...options, policy: new CorePolicy({ config: { policy: 'warm' } }) })
 * const plain = replay(trace, { ...options, policy: roundRobin(4) })
 * console.log(warm.completed, plain.completed) // => 1 1
 */
export function replay(trace: readonly TraceRequest[], options: ReplayOptions): ReplayReport {
  const clock = new VirtualClock()
  const base: EngineOptions = { ...dynamoEngine, ...options.engine }
  const jobs = prepare(trace, base.blockTokens, options)
  const meter = new ReplayMeter(options.workers)
  const { policy } = options
  const engines: Engine<Leg>[] = Array.from({ length: options.workers }, (_, worker) => {
    const own: EngineOptions = { ...base, ...options.worker?.(worker) }
    return new Engine<Leg>(
      own,
      clock,
      listenTo(
        worker,
        clock,
        options,
        meter,
        (request) => handOver(worker, request),
        (job) => wake(job),
      ),
    )
  })
  const prefillWorkers = options.pairs?.prefillWorkers ?? 0

  const submit = (job: Job, worker: number, kind: Leg['kind']): void =>
    engines[worker]!.submit(
      new EngineRequest<Leg>(
        { job, kind },
        {
          promptTokens: job.promptTokens,
          outputTokensMax: kind === 'prefill' ? 1 : job.outputTokens,
          content: job.content,
          keepsBlocks: kind === 'prefill',
          externalTokens: kind === 'decode' ? job.promptTokens : 0,
        },
        base.blockTokens,
      ),
    )
  const dispatch = (request: ReplayRequest, worker: number): void => {
    const job = jobs[request.index]!
    meter.dispatched(worker, clock.now() - job.arrivalMs, job.arrivalMs)
    submit(job, worker, worker < prefillWorkers ? 'prefill' : 'whole')
  }
  /** The KV of a finished prefill goes to the decode worker; until it is there, both hold it. */
  const handOver = (worker: number, request: EngineRequest<Leg>): void => {
    const { job } = request.tag
    const now = clock.now()
    const decodeWorker =
      policy.routeDecode?.(job, now) ?? prefillWorkers + (job.index % (options.workers - prefillWorkers))
    policy.prefillDone?.(job, worker, decodeWorker, now)
    clock.at(now + job.promptTokens * options.pairs!.transferMsPerToken, () => {
      engines[worker]!.release(request)
      submit(job, decodeWorker, 'decode')
    })
  }
  policy.start?.({ clock, workers: options.workers, engine: base, dispatch })

  let arrived = 0
  const accept = (job: Job, now: number): void => {
    const worker = policy.route(job, now)
    if (worker >= 0) dispatch(job, worker)
    if (++arrived % 100 === 0) options.progress?.(arrived)
  }
  const followers = new Map<number, Job[]>()
  for (const job of jobs) {
    if (!job.follows) continue
    const others = followers.get(job.follows.index)
    if (others) others.push(job)
    else followers.set(job.follows.index, [job])
  }
  /** The next turn of a session comes when the one before it is answered, and its delay is over. */
  const wake = (ended: Job): void => {
    for (const job of followers.get(ended.index) ?? []) {
      job.arrivalMs = clock.now() + job.follows!.delayMs / (options.arrivalSpeedup ?? 1)
      clock.at(job.arrivalMs, () => accept(job, clock.now()))
    }
  }
  const firsts = followers.size === 0 ? jobs : jobs.filter(({ follows }) => !follows)
  let next = 0
  const arrive = (): void => {
    const now = clock.now()
    while (next < firsts.length && firsts[next]!.arrivalMs <= now) accept(firsts[next++]!, now)
    if (next < firsts.length) clock.at(firsts[next]!.arrivalMs, arrive)
  }
  if (firsts.length > 0) clock.at(firsts[0]!.arrivalMs, arrive)
  clock.run()
  return meter.report(clock.now(), engines)
}

function prepare(trace: readonly TraceRequest[], blockTokens: number, options: ReplayOptions): Job[] {
  const keys = new BlockKeys(blockTokens, options.traceBlockTokens)
  const speedup = options.arrivalSpeedup ?? 1
  const prompts = trace.map((request) => keys.keysOf(request))
  return trace.map((request, index) => ({
    index,
    arrivalMs: request.arrivalMs / speedup,
    follows: request.follows,
    promptTokens: request.promptTokens,
    outputTokens: request.outputTokens,
    blockKeys: prompts[index]!,
    isWhole: request.isWhole ?? false,
    content: contentOf(prompts[index]!, keys),
    firstTokenMs: -1,
    lastTokenMs: -1,
  }))
}

/** Prompt blocks as the trace has them, then blocks that nobody else will ask for; remembered, since preemption recomputes them. */
function contentOf(prompt: Float64Array, keys: BlockKeys): BlockContent {
  const generated: number[] = []
  return {
    keyAt(index) {
      if (index < prompt.length) return prompt[index]!
      const own = index - prompt.length
      while (generated.length <= own) generated.push(keys.fresh())
      return generated[own]!
    },
  }
}

function listenTo(
  worker: number,
  clock: VirtualClock,
  options: ReplayOptions,
  meter: ReplayMeter,
  handOver: (request: EngineRequest<Leg>) => void,
  ended: (job: Job) => void,
): EngineListener<Leg> {
  const { policy, eventDelayMs = 0, eventsLeave = 'computed' } = options
  const blockTokens = options.engine?.blockTokens ?? dynamoEngine.blockTokens
  let events: (() => void)[] = []
  // Passed on in the order in which the engine said it, each after the same delay.
  const leave = (event: () => void): void => {
    if (eventsLeave === 'computed') events.push(event)
    else if (eventDelayMs === 0) event()
    else clock.at(clock.now() + eventDelayMs, event)
  }
  const flush = (): void => {
    if (events.length === 0) return
    const batch = events
    events = []
    const apply = (): void => {
      for (const event of batch) event()
    }
    if (eventDelayMs === 0) apply()
    else clock.at(clock.now() + eventDelayMs, apply)
  }
  const removed = (key: number): void => {
    if (policy.removed) leave(() => policy.removed?.(worker, key, clock.now()))
  }
  return {
    stored(request, from, to) {
      if (!policy.stored) return
      const keys = new Float64Array(to - from)
      for (let index = from; index < to; index++) keys[index - from] = request.content.keyAt(index)
      const parent = from === 0 ? -1 : request.content.keyAt(from - 1)
      leave(() => policy.stored?.(worker, keys, parent, clock.now()))
    },
    removed,
    hostStored() {},
    hostRemoved() {},
    admitted({ tag, cachedTokens }) {
      // A decode leg's prompt was counted where it was prefilled.
      if (tag.kind === 'decode') return
      const { arrivalMs, promptTokens } = tag.job
      meter.admitted({ worker, arrivalMs, queuedMs: clock.now() - arrivalMs, promptTokens, cachedTokens })
    },
    computed: flush,
    token(request) {
      const { job, kind } = request.tag
      if (kind === 'prefill') return false // the client sees the decode side's tokens only
      const now = clock.now()
      if (job.firstTokenMs < 0) {
        job.firstTokenMs = now
        meter.firstToken(now - job.arrivalMs, job.arrivalMs)
        if (!job.isWhole) policy.firstToken?.(job, worker, now)
      } else meter.nextToken(now - job.lastTokenMs)
      job.lastTokenMs = now
      if (policy.outputBlock && !job.isWhole && (job.promptTokens + request.generated) % blockTokens === 1)
        policy.outputBlock(job, worker, Math.ceil((job.promptTokens + request.generated) / blockTokens), now)
      return false
    },
    finished(request, reason: FinishReason) {
      const { job, kind } = request.tag
      if (kind === 'prefill' && reason !== 'rejected') {
        meter.handedOver()
        return handOver(request)
      }
      const now = clock.now()
      meter.finished(worker, now - job.arrivalMs, request.generated, reason)
      if (job.isWhole && job.firstTokenMs >= 0) {
        policy.firstToken?.(job, worker, now)
        policy.outputBlock?.(job, worker, Math.ceil((job.promptTokens + request.generated) / blockTokens), now)
      }
      policy.finished?.(job, worker, now)
      ended(job)
    },
  }
}
