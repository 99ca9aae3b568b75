// Questions: what does one request cost the tracker at each step of its life, what does it occupy, and what does a query
// over all ranks cost? Each rank has 8 active requests of 512 blocks; prompts share one of 50 prefixes of 64 blocks.
import { RankTable } from '../../src/core/protocol/index.js'
import type { HashColumn } from '../../src/core/protocol/index.js'
import { ActiveSequences, newLoadColumns } from '../../src/core/sequences/index.js'
import type { BenchContext, Figure } from '../harness.js'
import { defineBench, summarise } from '../harness.js'

const blocks = 512
const sharedBlocks = 64
const prefixCount = 50

/** Chained by construction: prefix hashes depend on the prefix alone, the rest on the request. */
function promptOf(prefix: number, request: number, blockCount = blocks): HashColumn {
  const column = new Uint32Array(2 * blockCount)
  for (let block = 0; block < blockCount; block++) {
    column[2 * block] = Math.imul(block + 1, 0x9e37_79b1) ^ (block < sharedBlocks ? prefix : request)
    column[2 * block + 1] = block < sharedBlocks ? prefix : 0x8000_0000 + request
  }
  return column
}

interface Fleet {
  readonly sequences: ActiveSequences
  readonly ranks: RankTable
}

function fleetOf(workerCount: number, requestsPerWorker: number): Fleet {
  const ranks = new RankTable()
  for (let worker = 0; worker < workerCount; worker++) ranks.intern(BigInt(worker), 0)
  const sequences = new ActiveSequences({ ranks })
  for (let request = 0; request < workerCount * requestsPerWorker; request++) {
    const sequenceHashes = promptOf(request % prefixCount, request)
    const prefillLoadHint = { tokens: 448 * 16 }
    sequences.book({ requestId: `warm-${request}`, rank: request % workerCount, sequenceHashes, prefillLoadHint }, 0)
  }
  return { sequences, ranks }
}

function lifecycle({ size, report }: BenchContext): void {
  const workerCount = 128
  const { sequences } = fleetOf(workerCount, size(1, 8))
  const batch = size(16, 512)
  const rounds = size(3, 60)
  const prompts = Array.from({ length: batch }, (_, index) => promptOf(index % prefixCount, 1_000_000 + index))
  const ids = prompts.map((_, index) => `5f0c2f8e-6f0b-4a55-b3a5-${index.toString().padStart(12, '0')}`)
  const samples: Record<string, number[]> = { book: [], mark: [], output_block: [], free: [] }
  const timed = (name: string, step: (index: number) => void): void => {
    const started = process.hrtime.bigint()
    for (let index = 0; index < batch; index++) step(index)
    samples[name]!.push(Number(process.hrtime.bigint() - started) / 1000 / batch)
  }
  let checksum = 0
  for (let round = 0; round < rounds + 3; round++) {
    timed('book', (index) => {
      const prefillLoadHint = { tokens: 448 * 16 }
      const sequenceHashes = prompts[index]!
      sequences.book({ requestId: ids[index]!, rank: index % workerCount, sequenceHashes, prefillLoadHint }, round)
    })
    timed('mark', (index) => sequences.markPrefillCompleted(ids[index]!, round))
    timed('output_block', (index) => sequences.addOutputBlock(ids[index]!, round, 0.5))
    checksum += sequences.activeBlocks(0)
    timed('free', (index) => void sequences.free(ids[index]!, round))
    checksum += sequences.activeBlocks(0)
  }
  for (const [name, all] of Object.entries(samples)) {
    const { median, spread } = summarise(all.slice(3))
    const id = { book: 'router.book.b512.us', free: 'router.free.b512.us' }[name] ?? `router.${name}.us`
    report({ id, value: median, unit: 'us', spread, checksum: String(checksum) })
  }
}

async function memory({ size, report }: BenchContext): Promise<void> {
  const gc = (globalThis as { gc?: () => void }).gc ?? (() => undefined)
  const occupied = async (): Promise<number> => {
    for (let turn = 0; turn < 3; turn++) {
      gc() // buffers that were outgrown are swept in the background
      await new Promise((resolve) => setTimeout(resolve, 20))
    }
    const { heapUsed, arrayBuffers } = process.memoryUsage()
    return heapUsed + arrayBuffers
  }
  const count = size(64, 8000)
  const ranks = new RankTable()
  for (let worker = 0; worker < 1000; worker++) ranks.intern(BigInt(worker), 0)
  const before = await occupied()
  const sequences = new ActiveSequences({ ranks })
  for (let request = 0; request < count; request++)
    sequences.book(
      {
        requestId: `5f0c2f8e-6f0b-4a55-b3a5-${request.toString().padStart(12, '0')}`,
        rank: request % 1000,
        sequenceHashes: promptOf(10_000 + request, request), // nothing is shared: the dearest case
        prefillLoadHint: { tokens: 8192 },
      },
      0,
    )
  const bytes = ((await occupied()) - before) / count
  const checksum = `${sequences.requestCount} ${sequences.activeBlocks(0)}`
  report({ id: 'router.request.t8k.bytes', value: Math.max(1, bytes), unit: 'bytes', spread: 0, checksum })
}

async function loads({ size, compare, report }: BenchContext): Promise<void> {
  for (const workerCount of [8, 128, 1000]) {
    const { sequences, ranks } = fleetOf(workerCount, size(1, 8))
    const out = newLoadColumns()
    const query = promptOf(7, 2_000_000)
    const repeats = size(10, Math.ceil(6_000_000 / (workerCount + 100)))
    const { fill } = await compare({
      fill: () => {
        let sum = 0
        for (let turn = 0; turn < repeats; turn++) {
          sequences.fillLoads(out, turn, query)
          sum += out.decodeBlocks[turn % ranks.size]!
        }
        return sum
      },
    })
    const { cpuNs, spread, checksum } = fill
    report({ id: `sequences.loads.w${workerCount}.us`, value: cpuNs / 1000 / repeats, unit: 'us', spread, checksum })
  }
}

/** 1,000 ranks hold one chain of 512 blocks, each cut at another depth: a walk over holders per cut would be ranks x blocks. */
async function staircase({ size, compare, report }: BenchContext): Promise<void> {
  const ranks = new RankTable()
  const sequences = new ActiveSequences({ ranks })
  const query = promptOf(1, 1)
  for (let worker = 0; worker < 1000; worker++) {
    const rank = ranks.intern(BigInt(worker), 0)
    const blockCount = 1 + ((worker * 7) % blocks)
    sequences.book({ requestId: `${worker}`, rank, sequenceHashes: query, blockCount }, 0)
  }
  const out = newLoadColumns()
  const repeats = size(5, 2000)
  const { fill } = await compare({
    fill: () => {
      let sum = 0
      for (let turn = 0; turn < repeats; turn++) {
        sequences.fillLoads(out, turn, query)
        sum += out.decodeBlocks[turn % 1000]!
      }
      return sum
    },
  })
  const { cpuNs, spread, checksum } = fill
  report({ id: 'sequences.loads.staircase.us', value: cpuNs / 1000 / repeats, unit: 'us', spread, checksum })
}

/**
 * The longest single call, in milliseconds. What the clock says counts other processes too, and what the process computed
 * counts the collector's threads: the smaller of the two is never less than the call took. Of several rounds the best.
 */
function longestCall(rounds: number, round: (timed: (call: () => unknown) => void) => string): Omit<Figure, 'id'> {
  const longest: number[] = []
  let checksum = ''
  for (let at = 0; at < rounds; at++) {
    let longestMs = 0
    checksum = round((call) => {
      const computed = process.cpuUsage()
      const started = performance.now()
      call()
      const passedMs = performance.now() - started
      if (passedMs < longestMs) return
      const { user, system } = process.cpuUsage(computed)
      longestMs = Math.max(longestMs, Math.min(passedMs, (user + system) / 1000))
    })
    longest.push(longestMs)
  }
  return { value: Math.min(...longest), unit: 'ms', spread: summarise(longest).spread, checksum }
}

/** Prompts of 1,875 to 5,625 blocks: they arrive, then each that ends makes place for another of other length, then all end. */
function comeAndGo(count: number, timed: (call: () => unknown) => void): string {
  const ranks = new RankTable()
  for (let worker = 0; worker < 100; worker++) ranks.intern(BigInt(worker), 0)
  const sequences = new ActiveSequences({ ranks })
  const sequenceHashes = promptOf(0, 0, 5625)
  let checksum = 0
  const start = (request: number, slot: number): void => {
    const draw = Math.imul(request + 1, 0x9e37_79b1) >>> 0
    const blockCount = 1875 + (draw % 3751)
    for (let block = sharedBlocks; block < blockCount; block++) sequenceHashes[2 * block + 1] = 0x8000_0000 + request
    timed(() => sequences.book({ requestId: `${slot}`, rank: slot % 100, sequenceHashes, blockCount }, 0))
  }
  for (let slot = 0; slot < count; slot++) start(slot, slot)
  for (let turn = 0; turn < 3 * count; turn++) {
    const slot = (Math.imul(turn + 1, 0x85eb_ca6b) >>> 8) % count
    timed(() => sequences.free(`${slot}`, 0))
    start(count + turn, slot)
    checksum += sequences.activeBlocks(slot % 100)
  }
  for (let slot = 0; slot < count; slot++) timed(() => sequences.free(`${slot}`, 0))
  return `${checksum} ${sequences.runCount}`
}

/** Requests of two blocks that share the first with one other: half as many runs again as requests. */
function manyRuns(count: number, timed: (call: () => unknown) => void): string {
  const ranks = new RankTable()
  const sequences = new ActiveSequences({ ranks })
  const rank = ranks.intern(1n, 0)
  const sequenceHashes = new Uint32Array(4)
  for (let request = 0; request < count; request++) {
    sequenceHashes.set([request >>> 1, 1, request, 2])
    timed(() => sequences.book({ requestId: `${request}`, rank, sequenceHashes }, 0))
  }
  const most = sequences.runCount
  for (let request = 0; request < count; request++) timed(() => sequences.free(`${request}`, 0))
  return `${most} ${sequences.activeBlocks(rank)}`
}

function turns({ size, report }: BenchContext): void {
  const rounds = size(1, 5)
  const prompts = size(20, 2000)
  report({ id: 'sequences.turns.p3750.ms_max', ...longestCall(rounds, (timed) => comeAndGo(prompts, timed)) })
  const requests = size(200, 134_000)
  report({ id: 'sequences.turns.r200k.ms_max', ...longestCall(rounds, (timed) => manyRuns(requests, timed)) })
}

export const benches = [
  defineBench(
    'sequences.lifecycle',
    'book, mark, output block and free of 512 blocks, among 1,024 requests',
    lifecycle,
  ),
  defineBench('sequences.memory', 'bytes per active request of 8,192 tokens, nothing shared', memory),
  defineBench('sequences.loads', 'the load of every rank for a prompt of 512 blocks, 64 of them shared', loads),
  defineBench('sequences.staircase', 'the same where 1,000 ranks leave the prompt at 512 different blocks', staircase),
  defineBench(
    'sequences.turns',
    'the longest call while 2,000 prompts of 3,750 blocks come and go, and up to 200,000 runs',
    turns,
  ),
]
