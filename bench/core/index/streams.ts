/**
 * Streams of lookups and events, prebuilt so that a benchmark times the index alone.
 *
 *   mooncake(workers, copies)  the conversation trace in 16-token blocks; a request goes to the worker that holds half of
 *                              it or more, others are dealt in turn; LRU caches of 16,384 blocks; prefill events of at
 *                              most 512 blocks, decode events of one
 *   agents(...)                our own shape: deep shared trees (system prompt, tools, task) and short bursts behind them
 */
import { readFileSync } from 'node:fs'
import { gunzipSync } from 'node:zlib'
import { ApplyReport, EventBatch, type PrefixIndex, WasmIndex } from '../../../src/core/index/index.js'
import { LruWorker } from './lru-worker.js'

export interface Stream {
  readonly workers: number
  /** Packed events of all turns, and local hashes of all prompts. */
  readonly events: EventBatch
  readonly prompts: Uint32Array
  /** Per turn: first prompt hash, prompt blocks, first event word, words, events. */
  readonly turns: Float64Array
  readonly turnCount: number
  /** Request, stored and removed block hashes. */
  readonly blockOps: number
}

export const turnFields = 5
const cacheBlocks = 16_384
const eventBlocksMax = 512

interface Request {
  readonly input_length: number
  readonly output_length: number
  readonly hash_ids: readonly number[]
}

export function mooncake(workers: number, copies: number, requestsMax: number): Stream {
  const text = gunzipSync(readFileSync('test/fixtures/traces/mooncake-conversation.jsonl.gz')).toString()
  const requests = text
    .trim()
    .split('\n')
    .slice(0, requestsMax)
    .map((line) => JSON.parse(line) as Request)
  const builder = new StreamBuilder(workers, cacheBlocks)
  let own = 2 ** 26 // output blocks are nobody else's
  for (let copy = 0; copy < copies; copy++) {
    for (const { input_length, output_length, hash_ids } of requests) {
      const blocks = Math.min(Math.floor(input_length / 16), 32 * hash_ids.length)
      const ids: number[] = []
      for (let block = 0; block < blocks; block++)
        ids.push(32 * (hash_ids[block >> 5]! + copy * 200_000) + (block & 31))
      const decoded: number[] = []
      for (let block = 0; block < Math.floor(output_length / 16); block++) decoded.push(own++)
      builder.turn(ids, decoded)
    }
  }
  return builder.finish()
}

/** Agents: 40 systems of 120 blocks, 25 tasks of 60 below each, then bursts of 2 to 14 blocks per step of a run. */
export function agents(workers: number, steps: number): Stream {
  const builder = new StreamBuilder(workers, cacheBlocks)
  let state = 12_345
  const random = (below: number) => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0
    return Math.floor((state / 2 ** 32) * below)
  }
  let own = 2 ** 27
  const runs: number[][] = []
  for (let step = 0; step < steps; step++) {
    const slot = random(400)
    let run = runs[slot]
    if (!run || run.length > 500) {
      const system = random(40)
      const task = 25 * system + random(25)
      run = []
      for (let block = 0; block < 120; block++) run.push(system * 128 + block)
      for (let block = 0; block < 60; block++) run.push(1_000_000 + task * 64 + block)
      runs[slot] = run
    }
    for (let block = 2 + random(13); block > 0; block--) run.push(own++)
    const decoded: number[] = []
    for (let block = random(5); block > 0; block--) decoded.push(own++)
    builder.turn(run, decoded, slot % workers)
    run.push(...decoded)
  }
  return builder.finish()
}

class StreamBuilder {
  readonly #workers: LruWorker[]
  readonly #events = new EventBatch(1 << 20)
  #prompts = new Uint32Array(1 << 20)
  #promptBlocks = 0
  readonly #turns: number[] = []
  #next = 0
  readonly #index: PrefixIndex = WasmIndex.create({ seedLo: 1, seedHi: 1 })!
  readonly #report = new ApplyReport()
  readonly #depths: Uint32Array

  constructor(workers: number, capacity: number) {
    this.#depths = new Uint32Array(workers)
    this.#workers = Array.from({ length: workers }, () => new LruWorker(capacity))
  }

  turn(ids: readonly number[], decoded: readonly number[], wanted?: number): void {
    const events = this.#events
    const [word, count] = [events.wordCount, events.eventCount]
    const prompt = this.#prompt(ids)
    const rank = wanted ?? this.#deepest(prompt, ids.length)
    const worker = this.#workers[rank]!
    const hit = worker.prefixOf(ids)
    worker.touch(ids, hit)
    for (let from = hit; from < ids.length; from += eventBlocksMax) {
      const to = Math.min(ids.length, from + eventBlocksMax)
      this.#remove(rank, worker.makeRoom(to - from))
      this.#store(rank, ids, from, to)
      worker.add(ids, from, to)
    }
    const all = [...ids]
    for (const id of decoded) {
      all.push(id)
      this.#remove(rank, worker.makeRoom(1))
      this.#store(rank, all, all.length - 1, all.length)
      worker.add(all, all.length - 1, all.length)
    }
    worker.release(all)
    this.#turns.push(prompt, ids.length, word, events.wordCount - word, events.eventCount - count)
    if (wanted === undefined) this.#follow(word, count)
  }

  finish(): Stream {
    const turns = Float64Array.from(this.#turns)
    return {
      workers: this.#workers.length,
      events: this.#events,
      prompts: this.#prompts.subarray(0, 2 * this.#promptBlocks),
      turns,
      turnCount: turns.length / turnFields,
      blockOps: this.#promptBlocks + this.#events.blockCount,
    }
  }

  /** A conversation stays where at least half of its prompt lies; others are dealt in turn. */
  #deepest(prompt: number, blocks: number): number {
    const depths = this.#depths.fill(0)
    const deepest = this.#index.find(this.#prompts.subarray(2 * prompt, 2 * (prompt + blocks)), blocks, depths)
    return 2 * deepest >= blocks ? depths.indexOf(deepest) : this.#next++ % depths.length
  }

  #follow(word: number, count: number): void {
    const batch = new EventBatch(6)
    batch.words = this.#events.words.subarray(word, this.#events.wordCount)
    batch.wordCount = batch.words.length
    batch.eventCount = this.#events.eventCount - count
    this.#index.apply(batch, this.#report)
  }

  #prompt(ids: readonly number[]): number {
    const first = this.#promptBlocks
    const needed = 2 * (first + ids.length)
    if (needed > this.#prompts.length) {
      const wider = new Uint32Array(Math.max(needed, 2 * this.#prompts.length))
      wider.set(this.#prompts)
      this.#prompts = wider
    }
    for (const [index, id] of ids.entries()) writeHash(this.#prompts, 2 * (first + index), id, localSalt)
    this.#promptBlocks += ids.length
    return first
  }

  #store(rank: number, ids: readonly number[], from: number, to: number): void {
    const parent = from > 0 ? ids[from - 1]! : 0
    const at = this.#events.openStored(
      rank,
      to - from,
      from > 0,
      spread(parent, externalSalt),
      spread(parent, ~externalSalt),
    )
    for (let index = from; index < to; index++) {
      writeHash(this.#events.words, at + 2 * (index - from), ids[index]!, externalSalt)
      writeHash(this.#events.words, at + 2 * (to - index) + 4 * (index - from), ids[index]!, localSalt)
    }
  }

  #remove(rank: number, ids: readonly number[]): void {
    if (ids.length === 0) return
    const at = this.#events.openRemoved(rank, ids.length)
    for (const [index, id] of ids.entries()) writeHash(this.#events.words, at + 2 * index, id, externalSalt)
  }
}

export const localSalt = 0x51ed270b
export const externalSalt = 0x2545f491

/** A 64-bit hash of a block's number: both halves spread over all bits. */
export function writeHash(words: Uint32Array, at: number, id: number, salt: number): void {
  words[at] = spread(id, salt)
  words[at + 1] = spread(id, ~salt)
}

function spread(id: number, salt: number): number {
  let x = Math.imul(id ^ salt, 0x9e3779b1)
  x = Math.imul(x ^ (x >>> 16), 0x85ebca6b)
  x = Math.imul(x ^ (x >>> 13), 0xc2b2ae35)
  return (x ^ (x >>> 16)) >>> 0
}
