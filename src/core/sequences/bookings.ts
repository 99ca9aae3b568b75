/**
 * The active requests as columns, found by request id. A request is a small integer while it lives; numbers are reused.
 * About 100 bytes each, next to the id itself and its place in the map.
 */
import { growFloat64, growInt32, growUint32, roomFor } from './columns.js'
import { LinkedLists } from './linked-lists.js'

export class Bookings {
  rank = new Int32Array(0)
  /** Where the prompt ends in `PromptChains`; -1 without tracked blocks. */
  leaf = new Int32Array(0)
  promptBlocks = new Uint32Array(0)
  startedAtMs = new Float64Array(0)
  /** NaN where the caller did not tell. Kept for whoever asks; no rule reads it. */
  expectedOutputTokens = new Float64Array(0)
  outputBlocks = new Uint32Array(0)
  /** The first so many of the output blocks weigh `outputUnits`; the others were added since and weigh 1. */
  outputBlocksWeighed = new Uint32Array(0)
  outputUnits = new Int32Array(0)
  readonly loraName: (string | undefined)[] = []
  /** The requests of each rank, oldest first. */
  readonly ofRank = new LinkedLists()
  readonly #byId = new Map<string, number>()
  readonly #ids: (string | undefined)[] = []
  readonly #free: number[] = []

  get count(): number {
    return this.#byId.size
  }

  get byteLength(): number {
    return 44 * this.rank.length + this.ofRank.byteLength
  }

  find(requestId: string): number {
    return this.#byId.get(requestId) ?? -1
  }

  idOf(request: number): string {
    return this.#ids[request]!
  }

  open(requestId: string, rank: number, startedAtMs: number): number {
    const request = this.#free.pop() ?? this.#ids.length
    this.#makeRoom(request)
    this.#byId.set(requestId, request)
    this.#ids[request] = requestId
    this.rank[request] = rank
    this.leaf[request] = -1
    this.promptBlocks[request] = 0
    this.startedAtMs[request] = startedAtMs
    this.expectedOutputTokens[request] = Number.NaN
    this.outputBlocks[request] = 0
    this.outputBlocksWeighed[request] = 0
    this.outputUnits[request] = -1
    this.loraName[request] = undefined
    this.ofRank.push(rank, request)
    return request
  }

  close(request: number): void {
    this.ofRank.remove(this.rank[request]!, request)
    this.#byId.delete(this.#ids[request]!)
    this.#ids[request] = undefined
    this.loraName[request] = undefined
    this.#free.push(request)
  }

  #makeRoom(request: number): void {
    if (request < this.rank.length) return
    const length = roomFor(request + 1, this.rank.length)
    this.rank = growInt32(this.rank, length)
    this.leaf = growInt32(this.leaf, length)
    this.promptBlocks = growUint32(this.promptBlocks, length)
    this.startedAtMs = growFloat64(this.startedAtMs, length)
    this.expectedOutputTokens = growFloat64(this.expectedOutputTokens, length)
    this.outputBlocks = growUint32(this.outputBlocks, length)
    this.outputBlocksWeighed = growUint32(this.outputBlocksWeighed, length)
    this.outputUnits = growInt32(this.outputUnits, length)
  }
}
