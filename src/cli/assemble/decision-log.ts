/**
 * Every request that was sent to a worker, as a line that `warmroute replay` reads: when it came, how long prompt and answer
 * were, which stretches of 512 tokens it shares with others, and what was decided. No text and no token leaves: a stretch is named by a hash
 * with a salt that lives as long as the process. Bounded on disk by renaming, in memory by dropping what a slow disk cannot take.
 */
import { randomUUID } from 'node:crypto'
import type { WriteStream } from 'node:fs'
import { createWriteStream, openSync, renameSync, statSync } from 'node:fs'
import { setTimeout as pause } from 'node:timers/promises'
import type { BlockHasher, HashScheme } from '../../core/hashing/index.js'
import { BlockHashes, createBlockHasher, createHashScheme } from '../../core/hashing/index.js'
import type { EndedRequest, Log } from '../../server/index.js'
import { howKnownWords } from '../../server/index.js'
import type { Metrics } from '../../telemetry/index.js'

export interface DecisionLogOptions {
  readonly path: string
  readonly bytesMax: number
  readonly log: Log
  /** Milliseconds between the clock of the requests and the time of day. */
  readonly epochMs: number
  readonly metrics: Pick<Metrics, 'decisionLogLines'>
  /** How long it waits before it tries a disk again that failed. */
  readonly retryMs?: number
  readonly now?: () => number
  readonly salt?: string
}

/** As the traces that people share have it. */
const stretchTokens = 512
/** Lines that wait for the disk, of this file and of full ones before it. */
const waitingBytesMax = 8 * 2 ** 20
/** How long the last lines may take: a disk that hangs must not hold up the exit. */
const closeMsMax = 10_000
const retryMsDefault = 10_000
const padding = 0xffff_ffff
/** Tenants may be many. */
const schemesMax = 4096
/** Prompts by their hashes, and who serves them: for our eyes only. */
const fileMode = 0o600

export class DecisionLog {
  readonly #options: DecisionLogOptions
  readonly #hasher: BlockHasher = createBlockHasher()
  readonly #hashes = new BlockHashes()
  readonly #salt: string
  /** One per model, adapter and tenant: what one of them has cached, another cannot use. */
  readonly #schemes = new Map<string, HashScheme>()
  readonly #ending = new Set<Promise<void>>()
  #stream: WriteStream | undefined
  #bytes = 0
  #waitingBytes = 0
  #written = 0
  #dropped = 0
  /** When a file that failed is tried again; undefined while it is open, and after the end. */
  #retryAtMs: number | undefined
  #hasWarned = false
  #isClosed = false

  constructor(options: DecisionLogOptions) {
    this.#options = options
    this.#salt = options.salt ?? randomUUID()
    this.#bytes = sizeOf(options.path)
    this.#open()
  }

  /** Lines on their way to the file. */
  get written(): number {
    return this.#written
  }

  /** Requests without a line: nothing of their prompts was compared, or the disk was too slow, or failed. */
  get dropped(): number {
    return this.#dropped
  }

  /** A request that failed says nothing about load, and is left out. */
  add(ended: EndedRequest): void {
    if (ended.status >= 400 && ended.status !== 499) return
    const { tokens } = ended
    if (this.#retryAtMs !== undefined && this.#now() >= this.#retryAtMs) this.#open()
    const stream = this.#stream
    if (!tokens || !stream || this.#waitingBytes > waitingBytesMax) return this.#drop(1)
    const line = `${JSON.stringify(this.#rowOf(ended, tokens))}\n`
    this.#waitingBytes += line.length
    stream.write(line, (error) => {
      this.#waitingBytes -= line.length
      if (error) this.#lost()
      else this.#arrived()
    })
    this.#written++
    this.#bytes += line.length
    if (this.#bytes >= this.#options.bytesMax) this.#turnOver()
  }

  /** Settles when every line is in its file, the full ones too. */
  async close(): Promise<void> {
    this.#isClosed = true
    this.#retryAtMs = undefined
    this.#endStream()
    const end = new AbortController()
    const tooLong = pause(closeMsMax, undefined, { signal: end.signal, ref: false }).catch(() => undefined)
    await Promise.race([Promise.all(this.#ending), tooLong])
    end.abort()
  }

  #rowOf(ended: EndedRequest, tokens: Uint32Array): Record<string, unknown> {
    const { startedAtMs, endedAtMs, firstTokenAtMs } = ended
    return {
      timestamp: tenths(this.#options.epochMs + startedAtMs),
      input_length: ended.promptTokens,
      output_length: ended.outputTokens,
      hash_ids: this.#idsOf(tokens, this.#schemeOf(ended)),
      model: ended.model,
      worker: String(ended.workerId),
      worker_url: ended.workerUrl,
      dp_rank: ended.dpRank,
      cached_tokens: ended.cachedTokens,
      held_ms: tenths(ended.waitedMs),
      ...(firstTokenAtMs === undefined ? {} : { ttft_ms: tenths(firstTokenAtMs - startedAtMs) }),
      e2e_ms: tenths(endedAtMs - startedAtMs),
      status: ended.status,
      ...howKnownWords(ended.howKnown),
    }
  }

  /** The chain up to each stretch, as whole numbers below 2^53; the last one is filled up. */
  #idsOf(tokens: Uint32Array, scheme: HashScheme): number[] {
    const count = Math.ceil(tokens.length / stretchTokens)
    const whole = new Uint32Array(count * stretchTokens).fill(padding, tokens.length)
    whole.set(tokens)
    this.#hasher.hash(whole, scheme, this.#hashes)
    const chain = this.#hashes.sequenceColumn()
    return Array.from({ length: count }, (_, at) => (chain[2 * at + 1]! & 0x1f_ffff) * 2 ** 32 + chain[2 * at]!)
  }

  #schemeOf({ model, loraName, cacheSalt }: EndedRequest): HashScheme {
    const key = JSON.stringify([this.#salt, model, loraName, cacheSalt])
    let scheme = this.#schemes.get(key)
    if (!scheme) {
      if (this.#schemes.size >= schemesMax) this.#schemes.clear() // the same key makes the same one again
      this.#schemes.set(key, (scheme = createHashScheme({ blockSize: stretchTokens, cacheNamespace: key })))
    }
    return scheme
  }

  /** At once, so that a file that is renamed a moment later is there, and is the one that its lines go to. */
  #open(): void {
    const { path } = this.#options
    this.#retryAtMs = undefined
    try {
      const stream = createWriteStream(path, { fd: openSync(path, 'a', fileMode) })
      stream.on('error', (cause) => this.#giveUp(stream, cause))
      this.#stream = stream
    } catch (cause) {
      this.#giveUp(undefined, cause as Error)
    }
  }

  /** A full or missing disk may come back: the file is opened again after a while, said once. */
  #giveUp(stream: WriteStream | undefined, cause: Error): void {
    if (this.#stream === stream) this.#stream = undefined
    if (!this.#isClosed && !this.#stream) this.#retryAtMs = this.#now() + (this.#options.retryMs ?? retryMsDefault)
    const { path, log } = this.#options
    if (!this.#hasWarned) log.warn({ path, cause: cause.message }, 'the decision log cannot be written')
    this.#hasWarned = true
  }

  #arrived(): void {
    this.#hasWarned = false // the disk takes lines, or takes them again
    this.#options.metrics.decisionLogLines.inc({ outcome: 'written' })
  }

  /** It was on its way. */
  #lost(): void {
    this.#written--
    this.#drop(1)
  }

  #drop(count: number): void {
    this.#dropped += count
    this.#options.metrics.decisionLogLines.inc({ outcome: 'dropped' }, count)
  }

  #now(): number {
    return (this.#options.now ?? (() => performance.now()))()
  }

  /** The full file makes room for a new one; what waits in its stream still reaches it under the new name. */
  #turnOver(): void {
    const { path } = this.#options
    this.#endStream()
    this.#bytes = 0
    try {
      renameSync(path, `${path}.1`)
      this.#open()
    } catch (cause) {
      this.#giveUp(undefined, cause as Error)
    }
  }

  #endStream(): void {
    const stream = this.#stream
    this.#stream = undefined
    if (!stream) return
    const ending: Promise<void> = new Promise<void>((resolve) => stream.end(() => resolve())).then(
      () => void this.#ending.delete(ending),
    )
    this.#ending.add(ending)
  }
}

function sizeOf(path: string): number {
  try {
    return statSync(path).size
  } catch {
    return 0
  }
}

function tenths(ms: number): number {
  return Math.round(ms * 10) / 10
}
