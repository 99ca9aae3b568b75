/**
 * Puts a body together as it arrives. A short one lies in its parts or in memory from the pool; a long one (more than 1 MiB) gets its
 * memory only when so much of it has arrived, in a turn of the loop of its own, since V8 may then collect. What arrives of long
 * bodies in one turn has a bound for all of them together (docs/decisions/0230).
 */
import type { IncomingMessage } from 'node:http'
import { ownTurn } from '../steps.js'
import type { BodyBudget } from './body-budget.js'
import type { BufferPool } from './buffer-pool.js'
import { pooledBytesMin, shortBytesMax } from './buffer-pool.js'
import { letGo } from './let-go.js'

export interface BodyMemory {
  readonly buffers: BufferPool
  readonly budget: BodyBudget
}

/** Beyond, parts are so small that each costs more than its bytes. */
const partsMax = 32
/** A smaller part is not worth a call. */
const letGoBytesMin = 4096

export class BodyReader {
  readonly #request: IncomingMessage
  /** 0 where nobody says. */
  readonly #declared: number
  readonly #bytesMax: number
  readonly #memory: BodyMemory | undefined
  #parts: Buffer[] = []
  /** Beginning of the body, as far as it does not lie in `#parts`. */
  #lent: Buffer | undefined
  #lentBytes = 0
  #size = 0
  #isOver = false

  constructor(request: IncomingMessage, declared: number, bytesMax: number, memory: BodyMemory | undefined) {
    this.#request = request
    this.#declared = declared
    this.#bytesMax = bytesMax
    this.#memory = memory
  }

  get #mayBeLong(): boolean {
    return this.#declared === 0 || this.#declared > shortBytesMax
  }

  get size(): number {
    return this.#size
  }

  /** Throws where there is no memory for it. */
  add(part: Buffer): void {
    const { length } = part // it has none any more once it is copied
    this.#memory?.budget.hold(length)
    this.#size += length
    if (this.#lent && this.#size <= this.#lent.length) this.#copy(part)
    else this.#parts.push(part)
    if (!this.#memory) return
    const { buffers } = this.#memory
    if (this.#size > shortBytesMax && this.#parts.length > 0) void this.#moveToLong(buffers)
    else {
      if (this.#parts.length > 0) this.#moveToShort(buffers)
      if (this.#mayBeLong && isTurnSpent(length)) void this.#pause()
    }
  }

  /** The caller releases its bytes from the budget, and gives its memory back. */
  finish(): Buffer {
    this.#isOver = true
    if (this.#lent && this.#parts.length === 0) return this.#lent.subarray(0, this.#size)
    if (!this.#lent && this.#parts.length === 1) return this.#parts[0]!
    this.#moveTo(this.#memory?.buffers.take(this.#size) ?? Buffer.allocUnsafeSlow(this.#size))
    return this.#lent!
  }

  /** Nobody has seen anything of it. */
  giveUp(): void {
    this.#isOver = true
    this.#memory?.budget.release(this.#size)
    if (this.#lent) this.#memory?.buffers.give(this.#lent)
    this.#lent = undefined
  }

  #moveToShort(buffers: BufferPool): void {
    const declared = this.#declared
    const isKnown = declared > this.#size && declared >= pooledBytesMin && declared <= shortBytesMax
    if (isKnown) this.#moveTo(buffers.take(declared))
    else if (this.#parts.length >= partsMax) this.#moveTo(buffers.take(shortBytesMax))
  }

  async #moveToLong(buffers: BufferPool): Promise<void> {
    this.#request.pause()
    await ownTurn()
    const long = this.#isOver ? undefined : buffers.take(this.#declared > 0 ? this.#declared : this.#bytesMax)
    await ownTurn()
    const short = this.#lent
    if (long && this.#isOver) buffers.give(long)
    else if (long) {
      this.#moveTo(long)
      if (short) buffers.give(short)
    }
    this.#request.resume()
  }

  /** What has arrived so far, into this memory. */
  #moveTo(memory: Buffer): void {
    if (this.#lent) this.#lent.copy(memory, 0, 0, this.#lentBytes)
    this.#lent = memory
    for (const part of this.#parts) this.#copy(part)
    this.#parts = []
  }

  #copy(part: Buffer): void {
    part.copy(this.#lent!, this.#lentBytes)
    this.#lentBytes += part.length
    if (part.length >= letGoBytesMin) letGo(part)
  }

  async #pause(): Promise<void> {
    this.#request.pause()
    await ownTurn()
    this.#request.resume()
  }
}

/** What arrives in one turn of bodies that are long, or may be: about a millisecond. */
const turnBytesMax = 512 * 1024
/** What a part costs besides its bytes. */
const partBytes = 512
let turnBytes = 0

function isTurnSpent(bytes: number): boolean {
  if (turnBytes === 0)
    setImmediate(() => {
      turnBytes = 0
    })
  turnBytes += bytes + partBytes
  return turnBytes > turnBytesMax
}
