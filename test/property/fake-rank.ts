/** The smallest engine that can go wrong in every way an event stream can: a block pool, its events, and a replay ring. */
import { encode } from '@msgpack/msgpack'

export interface Batch {
  readonly sequence: number
  readonly payload: Uint8Array
}

interface Block {
  readonly hash: bigint
  readonly parent: bigint | undefined
  readonly tokens: readonly number[]
}

export class FakeRank {
  readonly blockSize = 4
  /** Hash -> copies; the truth. */
  readonly cached = new Map<bigint, number>()
  /** When a hash was last lost, in virtual milliseconds. */
  readonly lostAt = new Map<bigint, number>()
  /** When the engine told of it, by a batch that somebody may have heard, or by its end. Missing: it has not yet. */
  readonly toldAt = new Map<bigint, number>()
  ring: Batch[] = []
  sequence = 0
  readonly #parents = new Map<bigint, bigint | undefined>()
  #order: bigint[] = [] // physical slots, least recently used first
  readonly #untold = new Set<bigint>()
  #owedClear = false
  #skewMs = 0
  #incarnation = 0
  readonly #slots: number
  readonly #ringMax: number
  readonly #random: () => number

  constructor(slots: number, ringMax: number, random: () => number) {
    this.#slots = slots
    this.#ringMax = ringMax
    this.#random = random
  }

  /** One request over a chain of blocks; answers the batch it published, if any. */
  request(chain: readonly number[], now: number): Batch | undefined {
    const events: unknown[] = []
    if (this.#owedClear) events.push({ type: 'AllBlocksCleared' })
    this.#owedClear = false
    const blocks = this.#blocksOf(chain)
    const pinned = new Set(blocks.map((block) => block.hash))
    const fresh: Block[] = []
    blocks.forEach((block, index) => {
      const isLast = index === blocks.length - 1
      // An engine recomputes the last block of a prompt that ends on a block border, and stores it a second time.
      const isDoubled = isLast && this.cached.has(block.hash) && this.#random() % 3 === 0
      if (this.cached.has(block.hash) && !isDoubled) this.#touch(block.hash)
      else if (this.#allocate(block, pinned, events, now)) fresh.push(block)
    })
    this.#announce(fresh, events)
    return events.length === 0 ? undefined : this.#publish(events, now)
  }

  /** Empties the cache; like vLLM, says so only with the next step. */
  reset(now: number): void {
    for (const hash of this.cached.keys()) {
      this.lostAt.set(hash, now)
      this.toldAt.delete(hash)
      this.#untold.add(hash)
    }
    this.cached.clear()
    this.#order = []
    this.#owedClear = true
  }

  /** A new process: numbers start at 0, nothing is cached, nothing is announced. */
  restart(now: number): void {
    this.reset(now)
    this.#tell(now)
    this.#owedClear = false
    this.sequence = 0
    this.ring = []
    this.#incarnation++
    this.#skewMs = (this.#random() % 3) * 3_600_000 - 3_600_000 // another machine's clock, an hour before or behind
  }

  get owesClear(): boolean {
    return this.#owedClear
  }

  get incarnation(): number {
    return this.#incarnation
  }

  /** Cached blocks that a prompt can reach: no block between them and the root is missing. */
  reachable(): bigint[] {
    const isReachable = (hash: bigint | undefined): boolean =>
      hash === undefined || (this.cached.has(hash) && isReachable(this.#parents.get(hash)))
    return [...this.cached.keys()].filter((hash) => isReachable(hash))
  }

  replayFrom(from: number): Batch[] {
    return this.ring.filter((batch) => batch.sequence >= from)
  }

  #blocksOf(chain: readonly number[]): Block[] {
    let parent: bigint | undefined
    return chain.map((content) => {
      const hash = mix((parent ?? 7n) * 31n + BigInt(content) + 1n)
      const block = { hash, parent, tokens: Array.from({ length: this.blockSize }, (_, index) => content * 10 + index) }
      this.#parents.set(hash, parent)
      parent = hash
      return block
    })
  }

  #allocate(block: Block, pinned: ReadonlySet<bigint>, events: unknown[], now: number): boolean {
    if (this.#order.length >= this.#slots) {
      const victim = this.#order.findIndex((hash) => !pinned.has(hash) || (this.cached.get(hash) ?? 0) > 1)
      if (victim < 0) return false
      const [hash] = this.#order.splice(victim, 1)
      this.#drop(hash!, now)
      events.push({ type: 'BlockRemoved', block_hashes: [hash], medium: 'GPU', group_idx: 0 })
    }
    this.#order.push(block.hash)
    this.cached.set(block.hash, (this.cached.get(block.hash) ?? 0) + 1)
    return true
  }

  #drop(hash: bigint, now: number): void {
    const left = this.cached.get(hash)! - 1
    if (left > 0) this.cached.set(hash, left)
    else {
      this.cached.delete(hash)
      this.lostAt.set(hash, now)
      this.toldAt.set(hash, now)
    }
  }

  #tell(now: number): void {
    for (const hash of this.#untold) this.toldAt.set(hash, now)
    this.#untold.clear()
  }

  #touch(hash: bigint): void {
    const at = this.#order.lastIndexOf(hash)
    this.#order.push(...this.#order.splice(at, 1))
  }

  /** Consecutive new blocks go out as one event, as engines do. */
  #announce(fresh: readonly Block[], events: unknown[]): void {
    for (let from = 0; from < fresh.length; ) {
      let to = from + 1
      while (to < fresh.length && fresh[to]!.parent === fresh[to - 1]!.hash) to++
      const run = fresh.slice(from, to)
      events.push({
        type: 'BlockStored',
        block_hashes: run.map((block) => block.hash),
        parent_block_hash: run[0]!.parent ?? null,
        token_ids: run.flatMap((block) => block.tokens),
        block_size: this.blockSize,
        medium: 'GPU',
        group_idx: 0,
        kv_cache_spec_kind: 'full_attention',
      })
      from = to
    }
  }

  #publish(events: unknown[], now: number): Batch {
    this.#tell(now)
    // Batches of one process never share a time.
    const seconds = 1_700_000_000.5 + (now + this.#skewMs) / 1000 + this.sequence * 1e-5
    const payload = encode([seconds, events, 0], { useBigInt64: true })
    const batch = { sequence: this.sequence++, payload }
    this.ring.push(batch)
    if (this.ring.length > this.#ringMax) this.ring.shift()
    return batch
  }
}

function mix(value: bigint): bigint {
  let mixed = BigInt.asUintN(64, value * 0x9e37_79b9_7f4a_7c15n)
  mixed ^= mixed >> 29n
  return BigInt.asUintN(64, mixed * 0xbf58_476d_1ce4_e5b9n)
}
