/**
 * The tokenizer threads: few, with a bounded queue. A task that outlives its deadline, or whose request is aborted, takes its
 * thread with it; another is started. The queue is ours, and so is the choice of a thread: each has a pool beneath to itself, which
 * starts it. One pool of several would give a task that waits for a new thread to one that answers while it ends.
 */
import { createRequire } from 'node:module'
import { fileURLToPath, pathToFileURL } from 'node:url'
import { Tinypool } from 'tinypool'
import type { ErrorCode } from '../../core/protocol/index.js'
import { errorTexts, WarmrouteError } from '../../core/protocol/index.js'
import { LoadOnlyError } from '../chat/request.js'
import type { LoadOnlyReason } from '../chat/request.js'
import type { Answer, TaskTypes } from './tasks.js'

export interface PoolOptions {
  readonly threads?: number
  /** Tasks that may wait for a thread; of small ones sixteen times as many. */
  readonly queueMax?: number
}

export interface TaskOptions {
  readonly deadlineMs: number
  readonly signal?: AbortSignal | undefined
  readonly transfer?: readonly ArrayBuffer[]
  /** Takes a thread a millisecond or two, and little memory: more such tasks may wait. */
  readonly isSmall?: boolean
}

const smallShare = 16

export interface PoolCounts {
  done: number
  failed: number
  refused: number
  /** Threads ended because a task took too long or was aborted. */
  ended: number
}

export class TokenPool {
  readonly counts: PoolCounts = { done: 0, failed: 0, refused: 0, ended: 0 }
  /** At most so many at a time; one that ended is replaced. */
  readonly threads: number
  readonly #slots: readonly Tinypool[]
  /** Slots that have no task and no thread that ends; of those at the end the threads' caches are warm. */
  readonly #idle: Tinypool[]
  readonly #tasksMax: number
  /** What lets each task begin that waits, in their order. */
  readonly #waiting = new Set<(slot: Tinypool) => void>()
  readonly #watched = new WeakSet<Thread>()
  /** What tells the task of a slot that its thread is lost. */
  readonly #onLost = new Map<Tinypool, (cause: unknown) => void>()
  #running = 0
  #isClosed = false

  constructor(options: PoolOptions = {}) {
    const threads = (this.threads = options.threads ?? 2)
    this.#tasksMax = threads + (options.queueMax ?? 64)
    const filename = workerFile()
    this.#slots = Array.from({ length: threads }, (_, index) => {
      const minThreads = index === 0 ? 1 : 0 // the first is always there
      return new Tinypool({ filename, name: 'encode', minThreads, maxThreads: 1, idleTimeout: 60_000 })
    })
    for (const slot of this.#slots) {
      // A thread that is lost without a task. One that was still to start has one all the same, which the pool beneath would
      // leave waiting; where there is none the next task has another thread. Unheard it would end the process.
      slot.on('error', (cause: unknown) => {
        this.#onLost.get(slot)?.(cause)
        this.#watch(slot)
      })
      this.#watch(slot)
    }
    this.#idle = [...this.#slots]
  }

  /** Tasks that run or wait. */
  get running(): number {
    return this.#running
  }

  async run<Name extends keyof TaskTypes>(
    name: Name,
    task: TaskTypes[Name]['task'],
    options: TaskOptions,
  ): Promise<TaskTypes[Name]['result']> {
    options.signal?.throwIfAborted()
    if (this.#running >= (options.isSmall ? this.#tasksMax * smallShare : this.#tasksMax)) {
      this.counts.refused++
      throw new WarmrouteError('WR_TOKENS_BUSY', { waiting: this.#running })
    }
    const stop = new AbortController()
    let slot: Tinypool | undefined
    let thread: Thread | undefined
    const end = (reason: unknown): void => {
      if (this.#isClosed) return // its thread ends anyway, and another would be started in its place
      const wasThere = hasThread(slot, thread)
      stop.abort(reason)
      if (wasThere && !hasThread(slot, thread)) this.counts.ended++
    }
    const onAbort = (): void => end(options.signal?.reason)
    const timer = setTimeout(() => {
      end(new WarmrouteError('WR_TOKENS_DEADLINE', { deadlineMs: options.deadlineMs, task: name }))
    }, options.deadlineMs)
    options.signal?.addEventListener('abort', onAbort, { once: true })
    this.#running++
    try {
      slot = this.#pop() ?? (await this.#turn(stop.signal))
      if (this.#isClosed) throw closed()
      this.#onLost.set(slot, (cause) => stop.abort(threadLost(cause)))
      const transferList = [...(options.transfer ?? [])]
      const asked = slot.run(task, { name, signal: stop.signal, transferList })
      thread = this.#watch(slot)
      const answer = (await asked) as Answer<TaskTypes[Name]['result']>
      if (answer.kind === 'failed') throw asError(answer)
      this.counts.done++
      return answer.value
    } catch (error) {
      this.counts.failed++
      if (!stop.signal.aborted) throw isOurs(error) ? error : threadLost(error)
      throw stop.signal.reason
    } finally {
      this.#running--
      clearTimeout(timer)
      options.signal?.removeEventListener('abort', onAbort)
      if (slot) {
        this.#onLost.delete(slot)
        void this.#free(slot, thread)
      }
    }
  }

  /** One whose thread is there rather than one that has to start it. */
  #pop(): Tinypool | undefined {
    const index = this.#idle.findLastIndex(({ threads }) => threads.length > 0)
    return this.#idle.splice(index, 1)[0]
  }

  /** Waits for a thread. */
  #turn(signal: AbortSignal): Promise<Tinypool> {
    return new Promise((begin, reject) => {
      const leave = (): void => {
        this.#waiting.delete(begin)
        reject(signal.reason as Error)
      }
      this.#waiting.add(begin)
      signal.addEventListener('abort', leave, { once: true })
    })
  }

  /** A thread that a task took with it may still answer until it has ended, and would be given another task. */
  async #free(slot: Tinypool, thread: Thread | undefined): Promise<void> {
    const isLost = thread !== undefined && !hasThread(slot, thread)
    this.#watch(slot) // now: one that is there in its place may end before it
    if (isLost) await thread.terminate() // it does already; this says when it has
    const [begin] = this.#waiting
    if (!begin) {
      if (isLost) this.#idle.unshift(slot)
      else this.#idle.push(slot)
      return
    }
    this.#waiting.delete(begin)
    begin(slot)
  }

  /** Called where a slot may have started its thread: one that exits without an error would be taken for a busy one. */
  #watch(slot: Tinypool): Thread | undefined {
    const [thread] = slot.threads
    if (!thread || this.#watched.has(thread)) return thread
    this.#watched.add(thread)
    thread.once('exit', () => {
      if (hasThread(slot, thread)) thread.emit('error', new Error('the thread exited'))
    })
    return thread
  }

  /** What runs or waits fails; nothing begins any more. */
  async close(): Promise<void> {
    this.#isClosed = true
    await Promise.all(this.#slots.map((slot) => slot.destroy()))
  }
}

type Thread = Tinypool['threads'][number]

function hasThread(slot: Tinypool | undefined, thread: Thread | undefined): boolean {
  return thread !== undefined && slot?.threads.includes(thread) === true
}

function closed(): WarmrouteError {
  return new WarmrouteError('WR_TOKENS_SOURCE_FAILED', { reason: 'the threads are closed' })
}

function isOurs(error: unknown): boolean {
  return error instanceof WarmrouteError || error instanceof LoadOnlyError
}

/** A thread may end under a task through no fault of its own: for want of memory, or with another task that was aborted. */
function threadLost(cause: unknown): WarmrouteError {
  const reason = cause instanceof Error ? cause.message : String(cause)
  return new WarmrouteError('WR_TOKENS_SOURCE_FAILED', { reason }, { cause })
}

function asError(answer: {
  readonly code: string
  readonly reason: string
  readonly details: Record<string, unknown>
}): Error {
  if (answer.code in errorTexts) {
    return new WarmrouteError(answer.code as ErrorCode, { reason: answer.reason, ...answer.details })
  }
  return new LoadOnlyError(answer.code as LoadOnlyReason, answer.reason)
}

/** The worker lies beside this file. Run from sources it is TypeScript, and each thread first loads what can read that. */
function workerFile(): string {
  if (!import.meta.url.endsWith('.ts')) return fileURLToPath(new URL('./worker.js', import.meta.url))
  const loader = pathToFileURL(createRequire(import.meta.url).resolve('tsx/esm/api')).href.replace(/\.cjs$/, '.mjs')
  const worker = new URL('./worker.ts', import.meta.url).href
  const source = `import { register } from '${loader}'; register(); const worker = await import('${worker}');
    export const { load, encode, render, parse, answer } = worker`
  return `data:text/javascript,${encodeURIComponent(source)}`
}
