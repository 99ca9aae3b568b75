/**
 * The tokenizer threads: few, with a bounded queue. A task that outlives its deadline, or whose request is aborted, takes its
 * thread with it; the pool starts another. The queue is ours: the pool beneath starts a thread for a task that it is given, and none for
 * those that wait in a queue of its own while another thread is left.
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
  readonly #pool: Tinypool
  readonly #tasksMax: number
  /** What lets each task begin that waits, in their order. */
  readonly #waiting = new Set<() => void>()
  /** Tasks that have a thread, or one that ends. */
  #begun = 0
  #running = 0
  #isClosed = false

  constructor(options: PoolOptions = {}) {
    const threads = (this.threads = options.threads ?? 2)
    this.#tasksMax = threads + (options.queueMax ?? 64)
    this.#pool = new Tinypool({
      filename: workerFile(),
      name: 'encode',
      minThreads: 1,
      maxThreads: threads,
      idleTimeout: 60_000,
    })
    // A thread that is lost while it has nothing to do: the next task has another. Unheard it would end the process.
    this.#pool.on('error', () => undefined)
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
    if (this.#isClosed) throw closed()
    if (this.#running >= (options.isSmall ? this.#tasksMax * smallShare : this.#tasksMax)) {
      this.counts.refused++
      throw new WarmrouteError('WR_TOKENS_BUSY', { waiting: this.#running })
    }
    const stop = new AbortController()
    let ended: Promise<unknown> | undefined
    const end = (reason: unknown): void => {
      if (this.#isClosed) return // its thread ends anyway, and another would be started in its place
      const before = this.#pool.threads
      stop.abort(reason)
      ended = this.#endOf(before)
    }
    const onAbort = (): void => end(options.signal?.reason)
    const timer = setTimeout(() => {
      end(new WarmrouteError('WR_TOKENS_DEADLINE', { deadlineMs: options.deadlineMs, task: name }))
    }, options.deadlineMs)
    options.signal?.addEventListener('abort', onAbort, { once: true })
    this.#running++
    let hasBegun = false
    try {
      const turn = this.#begin(stop.signal)
      if (turn) await turn
      hasBegun = true
      if (this.#isClosed) throw closed()
      const transferList = [...(options.transfer ?? [])]
      const answer = (await this.#pool.run(task, { name, signal: stop.signal, transferList })) as Answer<
        TaskTypes[Name]['result']
      >
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
      if (hasBegun) void Promise.resolve(ended).then(() => this.#next())
    }
  }

  /** Waits for a thread. */
  #begin(signal: AbortSignal): Promise<void> | undefined {
    if (this.#begun < this.threads) {
      this.#begun++
      return undefined
    }
    return new Promise((resolve, reject) => {
      const begin = (): void => {
        signal.removeEventListener('abort', leave)
        resolve()
      }
      const leave = (): void => {
        this.#waiting.delete(begin)
        reject(signal.reason as Error)
      }
      this.#waiting.add(begin)
      signal.addEventListener('abort', leave, { once: true })
    })
  }

  #next(): void {
    const [begin] = this.#waiting
    if (!begin) {
      this.#begun--
      return
    }
    this.#waiting.delete(begin)
    begin()
  }

  /** Of the thread that a task took with it, if it had one. Until it has ended it may still answer, and would be given another task. */
  #endOf(before: Tinypool['threads']): Promise<unknown> | undefined {
    const left = new Set(this.#pool.threads)
    const thread = before.find((it) => !left.has(it))
    if (!thread) return undefined
    this.counts.ended++
    return thread.terminate() // it does already; this says when it has
  }

  /** What runs or waits fails; nothing begins any more. */
  close(): Promise<void> {
    this.#isClosed = true
    return this.#pool.destroy()
  }
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
