/** A living router on a clock that stands until it is moved, with everything it says written down. */
import type { RouterConfigInput, RouterEvent, WorkerConfig } from '../core/protocol/index.js'
import { computeBlockHashes, computeSequenceHashes } from '../core/hashing/index.js'
import type { FindBestMatch } from './best-match.js'
import { KvRouter } from './kv-router.js'
import type { KvRouterOptions } from './kv-router-options.js'
import type { Randomness, RouterClock, RouterLog } from './router-ports.js'
import { WorkerRegistry } from './worker-registry.js'

export class StillClock implements RouterClock {
  time = 0
  readonly #timers = new Set<{ at: number; readonly everyMs: number; readonly work: () => void }>()

  nowMs(): number {
    return this.time
  }

  every(ms: number, work: () => void): () => void {
    return this.#add(ms, ms, work)
  }

  once(ms: number, work: () => void): () => void {
    return this.#add(ms, 0, work)
  }

  soon(work: () => void): void {
    queueMicrotask(work)
  }

  get timerCount(): number {
    return this.#timers.size
  }

  /** Fires what is due, in order. */
  advance(ms: number): void {
    const end = this.time + ms
    for (;;) {
      const next = [...this.#timers].filter((it) => it.at <= end).sort((a, b) => a.at - b.at)[0]
      if (!next) break
      this.time = next.at
      if (next.everyMs > 0) next.at += next.everyMs
      else this.#timers.delete(next)
      next.work()
    }
    this.time = end
  }

  #add(ms: number, everyMs: number, work: () => void): () => void {
    const timer = { at: this.time + ms, everyMs, work }
    this.#timers.add(timer)
    return () => void this.#timers.delete(timer)
  }
}

export class LogBook implements RouterLog {
  isDebug = true
  readonly lines: { readonly level: string; readonly fields: Record<string, unknown>; readonly sentence: string }[] = []

  debug(fields: Record<string, unknown>, sentence: string): void {
    this.lines.push({ level: 'debug', fields, sentence })
  }

  info(fields: Record<string, unknown>, sentence: string): void {
    this.lines.push({ level: 'info', fields, sentence })
  }

  warn(fields: Record<string, unknown>, sentence: string): void {
    this.lines.push({ level: 'warn', fields, sentence })
  }

  warnings(): string[] {
    return this.lines.filter((line) => line.level === 'warn').map((line) => line.sentence)
  }
}

/** Always the same lots and bits, in the same order. */
export function fixedRandomness(): Randomness {
  let state = 1
  const next = (): number => (state = (Math.imul(state, 1103515245) + 12345) & 0x7fffffff)
  return { draw: () => next() / 0x80000000, fill: (words) => words.forEach((_, at) => (words[at] = next())) }
}

export interface Scene {
  readonly router: KvRouter
  readonly clock: StillClock
  readonly log: LogBook
  readonly workers: WorkerRegistry
}

export const plainWorker: WorkerConfig = { dataParallelStartRank: 0, dataParallelSize: 1, maxNumBatchedTokens: 100 }

/** Workers 0 and 1 with blocks of 4 tokens, unless told. */
export async function openScene(
  config: RouterConfigInput = {},
  options: Partial<Omit<KvRouterOptions, 'config' | 'workers'>> & { readonly workerIds?: readonly bigint[] } = {},
): Promise<Scene> {
  const { workerIds = [0n, 1n], ...rest } = options
  const clock = new StillClock()
  const log = new LogBook()
  const workers = new WorkerRegistry(workerIds.map((id) => [id, plainWorker] as const))
  const random = fixedRandomness()
  const router = await KvRouter.create({ blockSize: 4, workers, config, clock, log, random, ...rest })
  return { router, clock, log, workers }
}

/** `count` tokens from `start` on. */
export function tokensFrom(start: number, count: number): Uint32Array {
  return Uint32Array.from({ length: count }, (_, at) => start + at)
}

/** The worker reports the first `blocks` blocks of the prompt. */
export function storedEvent(
  workerId: bigint,
  tokens: Uint32Array,
  blocks: number,
  storageTier: RouterEvent['storageTier'] = 'device',
  skip = 0,
): RouterEvent {
  const local = computeBlockHashes(tokens, 4)
  const sequence = computeSequenceHashes(local)
  const stored = local.slice(skip, blocks).map((tokensHash, at) => {
    return { tokensHash, blockHash: sequence[skip + at]!, mmExtraInfo: null }
  })
  const parentHash = skip === 0 ? null : sequence[skip - 1]!
  const data = { kind: 'stored', parentHash, startPosition: null, blocks: stored } as const
  return { workerId, storageTier, residencyDomain: 'missing', event: { eventId: 1n, dpRank: 0, data } }
}

/** A prompt of four blocks of four tokens, and the question who should serve it. */
export const prompt: Uint32Array = tokensFrom(100, 16)

export function ask(contextId: string, change: Partial<FindBestMatch> = {}): FindBestMatch {
  return { contextId, tokens: prompt, updateStates: true, ...change }
}
