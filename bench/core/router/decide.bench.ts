// Question: what does a whole decision cost, from tokens to booking? Every stage is the product's own: hash, find in the
// exact index, loads, selection, booking. Prompts differ each time, as in traffic: half of each is cached on two workers,
// its first 64 blocks (a system prompt) on all. Eight requests run on every worker throughout. Every request has an id of
// its own, as in traffic: one id that comes and goes leaves its dead entries in one bucket of the map that ids are found in.
import { createBlockHasher, createHashScheme, BlockHashes } from '../../../src/core/hashing/index.js'
import { KvIndex, TieredBatch, WasmIndex } from '../../../src/core/index/index.js'
import type { RouterConfigInput } from '../../../src/core/protocol/index.js'
import { completeRouterConfig, defaultWorkerConfig } from '../../../src/core/protocol/index.js'
import { profileFor } from '../../../src/core/queue/index.js'
import { RouterCore } from '../../../src/core/router/index.js'
import type { Bench, BenchContext } from '../../harness.js'
import { defineBench, involuntarySwitches, percentile } from '../../harness.js'

const blockSize = 16
const systemBlocks = 64
const activePerWorker = 8

export const benches: Bench[] = [
  defineBench('router.decide.w8', 'a decision over 8 workers, 8,192 tokens', (it) => measure(it, 8, 8192, 'w8.t8k')),
  defineBench('router.decide.w128', 'the same over 128 workers', (it) => measure(it, 128, 8192, 'w128.t8k')),
  defineBench('router.decide.w1000', 'the same over 1,000 workers', (it) => measure(it, 1000, 8192, 'w1000.t8k')),
  defineBench('router.decide.t128k', 'the same over 1,000 workers, 131,072 tokens', (it) =>
    measure(it, 1000, 131_072, 'w1000.t128k'),
  ),
  defineBench('router.decide.warm.w128', '`policy: warm` over 128 workers, 8,192 tokens', (it) =>
    measure(it, 128, 8192, 'warm.w128.t8k', { policy: 'warm' }),
  ),
  defineBench('router.decide.warm.w1000', 'the same over 1,000 workers', (it) =>
    measure(it, 1000, 8192, 'warm.w1000.t8k', { policy: 'warm' }),
  ),
]

function measure(
  context: BenchContext,
  fullWorkers: number,
  tokenCount: number,
  name: string,
  settings: RouterConfigInput = {},
): void {
  const workerCount = context.isSmoke ? Math.min(8, fullWorkers) : fullWorkers
  const promptCount = context.size(4, tokenCount > 10_000 ? 16 : 128)
  const turns = context.size(8, tokenCount > 10_000 ? 600 : 6000)
  const fleet = newFleet(workerCount, tokenCount, promptCount, settings)
  const samples: number[] = []
  let checksum = 0
  for (let turn = -Math.min(turns, 1500); turn < turns; turn++) {
    const prompt = fleet.prompts[(turn + 1_000_000) % promptCount]!
    const requestId = `measured-${turn}`
    fleet.moment.nowMs++ // what a rank usually carries is averaged anew once time has passed
    const switches = involuntarySwitches()
    const started = performance.now()
    const worker = fleet.decide(prompt, requestId)
    const took = performance.now() - started
    const isOurs = involuntarySwitches() === switches
    fleet.core.free(requestId, fleet.moment)
    if (turn < 0) continue // warm-up
    if (isOurs || context.isSmoke) samples.push(took * 1000)
    checksum = (Math.imul(checksum, 31) + worker) | 0
  }
  const decide = Float64Array.from(samples).sort()
  const spread = (percentile(decide, 0.75) - percentile(decide, 0.25)) / percentile(decide, 0.5)
  for (const [suffix, share] of [
    ['p50_us', 0.5],
    ['p99_us', 0.99],
  ] as const)
    context.report({
      id: `router.decide.${name}.${suffix}`,
      value: percentile(decide, share),
      unit: 'us',
      spread,
      checksum: String(checksum),
    })
}

function newFleet(workerCount: number, tokenCount: number, promptCount: number, settings: RouterConfigInput) {
  const config = completeRouterConfig(settings)
  const core = new RouterCore({
    config,
    blockSize,
    profile: profileFor(undefined, undefined, config),
    label: 'decode',
    index: (ranks) => new KvIndex({ ranks, device: WasmIndex.create({ seedLo: 1, seedHi: 2 })!, startMs: 0, seed: 1 }),
  })
  const moment = { nowMs: 0, draw: () => 0.5 }
  core.reconcileWorkers(
    new Map(Array.from({ length: workerCount }, (_, id) => [BigInt(id), defaultWorkerConfig])),
    moment,
  )
  const hasher = createBlockHasher()
  const scheme = createHashScheme({ blockSize })
  const hashes = new BlockHashes((blockCount) => core.index!.promptColumn(blockCount)) // as the router has it
  const prompts = Array.from({ length: promptCount }, (_, at) => newPrompt(tokenCount, at))

  function decide(tokens: Uint32Array, requestId: string): number {
    hasher.hash(tokens, scheme, hashes)
    const { local, sequence, count } = hashes
    const matches = core.find(local, count)
    const decision = core.decide(
      {
        requestId,
        promptTokens: tokens.length,
        localHashes: local,
        sequenceHashes: sequence,
        blockCount: count,
        isQueryOnly: false,
      },
      moment,
      matches,
    )
    if (decision.kind !== 'picked') throw new Error(decision.kind)
    return Number(decision.worker.workerId)
  }

  const batch = new TieredBatch()
  const half = Math.floor(tokenCount / blockSize / 2)
  for (const [at, prompt] of prompts.entries()) {
    hasher.hash(prompt, scheme, hashes)
    for (const worker of [at % workerCount, (at * 7 + 1) % workerCount])
      batch.device.stored(core.ranks.find(BigInt(worker), 0)!, undefined, hashes.sequence, hashes.local, half)
  }
  for (let worker = 0; worker < workerCount; worker++)
    batch.device.stored(core.ranks.find(BigInt(worker), 0)!, undefined, hashes.sequence, hashes.local, systemBlocks)
  core.applyBatch(batch)

  // Running requests have prompts of their own behind the system prompt, and their prefill is done.
  for (let n = 0; n < workerCount * activePerWorker; n++) {
    const tokens = newPrompt(Math.min(tokenCount, 8192), promptCount + n)
    hasher.hash(tokens, scheme, hashes)
    const request = {
      requestId: `active${n}`,
      promptTokens: tokens.length,
      sequenceHashes: hashes.sequence,
      blockCount: hashes.count,
      isQueryOnly: false,
    }
    core.book(request, { workerId: BigInt(n % workerCount), dpRank: 0 }, 0, moment)
    core.markPrefillCompleted(request.requestId, moment)
  }
  return { core, moment, prompts, decide }
}

function newPrompt(tokenCount: number, seed: number): Uint32Array {
  let state = seed + 1
  return Uint32Array.from({ length: tokenCount }, (_, at) => {
    if (at < systemBlocks * blockSize) return at
    state = (Math.imul(state, 1103515245) + 12345) & 0x7fffffff
    return state >>> 8
  })
}
