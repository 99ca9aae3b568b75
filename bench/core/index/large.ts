/**
 * S10M: 1,000 workers and 9.8 M held blocks. 50 shared prompts of 64 blocks, conversations of 436 blocks behind them, 20
 * per worker; then turns of (find 500, remove 436, store 436) at random workers. Hashes are made from block numbers, so
 * that only one slice of turns has to be in memory at a time.
 */
import { ApplyReport, EventBatch, type PrefixIndex } from '../../../src/core/index/index.js'
import { externalSalt, localSalt, writeHash } from './streams.js'

const promptCount = 50
const promptBlocks = 64
const talkBlocks = 436
const talksPerWorker = 20

export class LargeFleet {
  readonly workers: number
  readonly #index: PrefixIndex
  readonly #report = new ApplyReport()
  /** Per worker: numbers of its conversations, and which shared prompts it holds. */
  readonly #talks: number[][] = []
  readonly #shared: Set<number>[] = []
  #nextTalk = 0
  #state = 99

  constructor(index: PrefixIndex, workers: number) {
    this.#index = index
    this.workers = workers
  }

  fill(): void {
    const batch = new EventBatch(1 << 16)
    for (let worker = 0; worker < this.workers; worker++) {
      this.#talks[worker] = []
      this.#shared[worker] = new Set()
      for (let talk = 0; talk < talksPerWorker; talk++) this.#store(batch, worker)
      this.#index.apply(batch, this.#report)
      batch.clear()
    }
  }

  /** Prebuilt turns: prompts, and one batch for each. */
  turns(count: number): { prompts: Uint32Array; batches: EventBatch[]; blockOps: number } {
    const blocks = promptBlocks + talkBlocks
    const prompts = new Uint32Array(2 * blocks * count)
    const batches: EventBatch[] = []
    for (let turn = 0; turn < count; turn++) {
      const worker = this.#random(this.workers)
      const talks = this.#talks[worker]!
      const gone = talks.splice(this.#random(talks.length), 1)[0]!
      const batch = new EventBatch(6 * talkBlocks + 64)
      const asked = talks[this.#random(talks.length)]!
      for (let block = 0; block < blocks; block++)
        writeHash(prompts, 2 * (turn * blocks + block), idOf(asked, block), localSalt)
      const at = batch.openRemoved(worker, talkBlocks)
      for (let block = 0; block < talkBlocks; block++) {
        writeHash(batch.words, at + 2 * block, idOf(gone, blocks - 1 - block), externalSalt)
      }
      this.#store(batch, worker)
      batches.push(batch)
    }
    return { prompts, batches, blockOps: count * (blocks + 2 * talkBlocks) }
  }

  run({ prompts, batches }: { prompts: Uint32Array; batches: readonly EventBatch[] }, times?: number[]): number {
    const blocks = promptBlocks + talkBlocks
    const depths = new Uint32Array(this.workers)
    let sum = 0
    for (const [turn, batch] of batches.entries()) {
      const prompt = prompts.subarray(2 * blocks * turn, 2 * blocks * (turn + 1))
      const started = times ? performance.now() : 0
      sum += this.#index.find(prompt, blocks, depths)
      times?.push((performance.now() - started) * 1e6)
      this.#index.apply(batch, this.#report)
    }
    if (this.#report.countOf('block_not_found') + this.#report.countOf('parent_block_not_found') > 0) {
      throw new Error('the index lost blocks')
    }
    return sum
  }

  /** A new conversation behind its shared prompt, which is stored first where it is missing. */
  #store(batch: EventBatch, worker: number): void {
    const talk = this.#nextTalk++
    const prompt = talk % promptCount
    const isNew = !this.#shared[worker]!.has(prompt)
    if (isNew) this.#blocks(batch, worker, talk, 0, promptBlocks)
    this.#shared[worker]!.add(prompt)
    this.#blocks(batch, worker, talk, promptBlocks, promptBlocks + talkBlocks)
    this.#talks[worker]!.push(talk)
  }

  #blocks(batch: EventBatch, worker: number, talk: number, from: number, to: number): void {
    const parent = new Uint32Array(2)
    if (from > 0) writeHash(parent, 0, idOf(talk, from - 1), externalSalt)
    const at = batch.openStored(worker, to - from, from > 0, parent[0]!, parent[1]!)
    for (let block = from; block < to; block++) {
      writeHash(batch.words, at + 2 * (block - from), idOf(talk, block), externalSalt)
      writeHash(batch.words, at + 2 * (to - from) + 2 * (block - from), idOf(talk, block), localSalt)
    }
  }

  #random(below: number): number {
    this.#state = (Math.imul(this.#state, 1_664_525) + 1_013_904_223) >>> 0
    return Math.floor((this.#state / 2 ** 32) * below)
  }
}

function idOf(talk: number, block: number): number {
  return block < promptBlocks ? (talk % promptCount) * promptBlocks + block : 1_000_000 + talk * talkBlocks + block
}
