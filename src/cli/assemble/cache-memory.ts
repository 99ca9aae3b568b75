/**
 * What is known of the engines' caches, kept over our own restart: written every so often and at the end, read once at the
 * start. A rank's part is handed out once, to the rank that has its source; whether it may be believed is for the engine
 * to prove (`events/snapshot.ts`). A rank that cannot be read when we write (it is not back yet, or in doubt, or proves
 * its part just now) keeps the part that the file has, until that is too old or known to be void: its engine may still
 * continue it by a replay. A file that cannot be written or read is said and counted, and nothing else changes.
 */
import { dirname } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import type { ImageReading, RankImage, RestoreRefusal } from '../../events/index.js'
import { loadSnapshot, saveSnapshot } from '../../events/index.js'
import { makeFolder } from './make-folder.js'
import type { Log } from '../../server/index.js'
import type { Metrics } from '../../telemetry/index.js'

export interface CacheMemoryOptions {
  readonly path: string
  /** Between two snapshots; 0: only at the end. */
  readonly intervalMs: number
  readonly images: () => Iterable<ImageReading>
  readonly metrics: Metrics
  readonly log: Log
  readonly now?: () => number
}

/** How the last snapshot may end: a disk that hangs must not hold up the exit. */
const lastSaveMsMax = 10_000
/** How long a part waits for its rank. An engine that was away for longer is learned anew. */
const waitMsMax = 600_000

export class CacheMemory {
  readonly path: string
  /** Settles when the file was read, whatever was in it. */
  readonly isRead: Promise<void>
  readonly #options: CacheMemoryOptions
  readonly #found = new Map<string, RankImage>()
  /** When each part of the file was read from its rank, or found. */
  readonly #parts = new Map<string, number>()
  readonly #timer: NodeJS.Timeout | undefined
  readonly #forgetting: NodeJS.Timeout
  #saving: Promise<void> | undefined
  #hasWarned = false

  constructor(options: CacheMemoryOptions) {
    this.#options = options
    this.path = options.path
    this.isRead = this.#read()
    this.#forgetting = setTimeout(() => this.#forget(), waitMsMax).unref()
    if (options.intervalMs > 0) this.#timer = setInterval(() => void this.save(), options.intervalMs).unref()
  }

  /** Ranks whose part still waits for its rank. */
  get waiting(): number {
    return this.#found.size
  }

  /** The part of the rank with this source, once. */
  claim(source: string): RankImage | undefined {
    const image = this.#found.get(source)
    this.#found.delete(source)
    return image
  }

  refused(image: RankImage, reason: RestoreRefusal): void {
    this.drop(image.source)
    this.#count(image, reason)
  }

  settled(image: RankImage, isProved: boolean): void {
    if (!isProved) this.drop(image.source)
    this.#count(image, isProved ? 'restored' : 'unproved')
  }

  /** No replay can continue the part that was saved. */
  drop(source: string): void {
    this.#parts.delete(source)
  }

  /** One at a time; who asks while one is written waits for that one. Never rejects. */
  save(): Promise<void> {
    return (this.#saving ??= this.#save().finally(() => (this.#saving = undefined)))
  }

  async close(): Promise<void> {
    clearInterval(this.#timer)
    clearTimeout(this.#forgetting)
    await this.isRead
    await this.#saving // what it began with is old by now
    const end = new AbortController()
    const tooLong = pause(lastSaveMsMax, undefined, { signal: end.signal, ref: false }).catch(() => undefined)
    await Promise.race([this.save(), tooLong])
    end.abort()
  }

  async #read(): Promise<void> {
    const { path, log, metrics } = this.#options
    try {
      for (const image of (await loadSnapshot(path)) ?? []) {
        this.#found.set(image.source, image)
        this.#parts.set(image.source, this.#now())
      }
    } catch (error) {
      metrics.snapshotRanks.inc({ outcome: 'unreadable' })
      log.warn({ path, error: String(error) }, 'what was known of caches cannot be read; they are learned anew')
    }
  }

  #forget(): void {
    for (const image of this.#found.values()) this.#count(image, 'unclaimed')
    this.#found.clear()
  }

  #now(): number {
    return (this.#options.now ?? (() => performance.now()))()
  }

  async #save(): Promise<void> {
    const { path, metrics, log } = this.#options
    await this.isRead // or it would be overwritten unread
    try {
      await makeFolder(dirname(path))
      const readAtMs = this.#now()
      const kept = new Set<string>()
      const keeps = (source: string): boolean => {
        const isYoung = readAtMs - (this.#parts.get(source) ?? Number.NEGATIVE_INFINITY) < waitMsMax
        if (isYoung) kept.add(source)
        return isYoung
      }
      const { bytes, longestMs, leftOut, sources } = await saveSnapshot(path, this.#options.images(), { keeps })
      for (const source of this.#parts.keys()) if (!sources.has(source)) this.#parts.delete(source)
      for (const source of sources) if (!kept.has(source)) this.#parts.set(source, readAtMs)
      metrics.snapshotKept.set({}, kept.size)
      metrics.snapshotSaves.inc({ outcome: 'saved' })
      metrics.snapshotBytes.set({}, bytes)
      metrics.snapshotPause.set({}, longestMs / 1000)
      if (leftOut > 0) log.warn({ path, ranks: leftOut }, 'the snapshot of caches is full, ranks were left out')
      this.#hasWarned = false
    } catch (error) {
      metrics.snapshotSaves.inc({ outcome: 'failed' })
      if (!this.#hasWarned) log.warn({ path, error: String(error) }, 'what is known of caches cannot be saved')
      this.#hasWarned = true // once, until it works again
    }
  }

  #count({ source }: RankImage, outcome: 'restored' | 'unproved' | 'unclaimed' | RestoreRefusal): void {
    this.#options.metrics.snapshotRanks.inc({ outcome })
    this.#options.log.info({ source, outcome }, 'what was known of a rank before the restart was judged')
  }
}
