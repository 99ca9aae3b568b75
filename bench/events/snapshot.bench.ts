/** What a snapshot of a million blocks costs, and for how long it holds the loop at a time. */
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createBlockHasher } from '../../src/core/hashing/index.js'
import { KvIndex, WasmIndex } from '../../src/core/index/index.js'
import { RankTable } from '../../src/core/protocol/index.js'
import type { BatchDecoder, SnapshotContext } from '../../src/events/index.js'
import { eventKind, Intake, loadSnapshot, restoreFeed, saveSnapshot, takeSnapshot } from '../../src/events/index.js'
import type { Bench } from '../harness.js'
import { defineBench } from '../harness.js'

const blockSize = 16
const chain = 64

export const benches: Bench[] = [
  defineBench(
    'events.snapshot1m',
    'how long does a snapshot hold the loop, and what does it cost?',
    async (context) => {
      const blocks = context.size(4_096, 2 ** 20)
      const folder = mkdtempSync(join(tmpdir(), 'warmroute-bench-'))
      const path = join(folder, 'caches.snapshot')
      try {
        for (const ranks of [1, 16]) {
          const router = newRouter(ranks, blocks / ranks)
          const pauses: number[] = []
          let bytes = 0
          const { save } = await context.compare({
            async save() {
              const saved = await saveSnapshot(path, takeSnapshot(router))
              pauses.push(saved.longestMs)
              bytes = saved.bytes
              return saved.ranks
            },
          })
          const steps = longestStep([...takeSnapshot(router)])
          const { load } = await context.compare({ load: async () => (await loadSnapshot(path))!.length })
          const images = (await loadSnapshot(path))!
          const young = newRouter(ranks, 0)
          const feeds = [...young.intake.feeds()]
          const before = process.cpuUsage()
          const restoring = longestStep(images.map((image, at) => restoreFeed(young, feeds[at]!, image)))
          const { user, system } = process.cpuUsage(before)
          const checksum = String(feeds.reduce((sum, { ledger }) => sum + ledger.deviceBlocks, 0))
          const name = `events.snapshot1m_${ranks}`
          pauses.sort((a, b) => a - b)
          const pause = pauses[pauses.length >> 1]!
          const spread = (pauses.at(-1)! - pauses[0]!) / pause
          context.report({ id: `${name}.pause_ms`, value: pause, unit: 'ms', spread, checksum: String(bytes) })
          context.report({ id: `${name}.step_cpu_ms`, value: steps, unit: 'ms', spread: 0, checksum: String(bytes) })
          context.report({ id: `${name}.save_cpu_ms`, value: save.cpuNs / 1e6, unit: 'ms', ...save })
          context.report({ id: `${name}.load_cpu_ms`, value: load.cpuNs / 1e6, unit: 'ms', ...load })
          context.report({ id: `${name}.restore_step_cpu_ms`, value: restoring, unit: 'ms', spread: 0, checksum })
          context.report({
            id: `${name}.restore_cpu_ms`,
            value: (user + system) / 1000,
            unit: 'ms',
            spread: 0,
            checksum,
          })
          context.report({ id: `${name}.mb`, value: bytes / 1e6, unit: 'MB', spread: 0, checksum: String(bytes) })
        }
      } finally {
        rmSync(folder, { recursive: true })
      }
    },
  ),
]

/** CPU time of the step that one in a thousand exceeds: the wall clock has other processes in it. */
function longestStep(works: readonly Generator<undefined, unknown, void>[]): number {
  const steps: number[] = []
  for (const work of works) {
    for (;;) {
      const before = process.cpuUsage()
      const isDone = work.next().done
      const { user, system } = process.cpuUsage(before)
      steps.push((user + system) / 1000)
      if (isDone) break
    }
  }
  steps.sort((a, b) => a - b)
  return steps[Math.floor(0.999 * (steps.length - 1))]!
}

function newRouter(rankCount: number, blocksPerRank: number): SnapshotContext {
  const ranks = new RankTable()
  const device = WasmIndex.create({ seedLo: 1, seedHi: 2 })
  if (!device) throw new Error('WebAssembly does not run here')
  const sink = new KvIndex({ ranks, device, startMs: 0, seed: 3 })
  const hasher = createBlockHasher()
  const requestReplay = () => undefined
  const intake = new Intake({ decoder: newChains(), sink, hasher, blockSize, seed: 4, requestReplay })
  for (let at = 0; at < rankCount; at++) {
    const { machine } = intake.addFeed({ rank: ranks.intern(BigInt(at), 0), dpRank: 0, hasReplay: true })
    machine.connected(0)
    machine.replayEnded(1, 0)
    for (let sequence = 0; sequence < blocksPerRank / chain; sequence++) machine.frame(sequence, new Uint8Array(8), 0)
  }
  intake.flush()
  const identityOf = (rank: number) => ({ workerId: BigInt(rank), dpRank: 0, source: String(rank) })
  return { intake, blocks: sink, blockSize, identityOf }
}

/** Every payload is a chain of 64 new blocks. */
function newChains(): BatchDecoder {
  let state = 11
  const next = (): number => (state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0)
  return {
    timestampOf: () => 1,
    decode(_, batch) {
      batch.reset()
      const event = batch.open(eventKind.stored)
      batch.blockSize[event] = blockSize
      batch.hashCount[event] = chain
      batch.tokenCount[event] = chain * blockSize
      batch.reserveHashes(chain)
      batch.reserveTokens(chain * blockSize)
      for (let word = 0; word < 2 * chain; word++) batch.hashes[word] = next()
      for (let token = 0; token < chain * blockSize; token++) batch.tokens[token] = next() >>> 15
      batch.hashTotal = chain
      batch.tokenTotal = chain * blockSize
      return undefined
    },
  }
}
