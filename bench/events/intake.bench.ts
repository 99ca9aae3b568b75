/** From the bytes of a frame to what the index knows: decode, normalise, hash, apply. One core, one process. */
import { encode } from '@msgpack/msgpack'
import { createBlockHasher } from '../../src/core/hashing/index.js'
import { KvIndex, WasmIndex } from '../../src/core/index/index.js'
import { RankTable } from '../../src/core/protocol/index.js'
import { KvEventDecoder } from '../../src/engines/index.js'
import type { Feed } from '../../src/events/index.js'
import { Intake } from '../../src/events/index.js'
import type { Bench } from '../harness.js'
import { defineBench } from '../harness.js'

const blockSize = 16
const ranks = 4
/** The recorded engines' vocabulary; and a large one with every id equally likely, which is the worst case for decoding. */
const vocabulary = 32_000
const wideVocabulary = 128_256

export const benches: Bench[] = [
  defineBench('events.prefill512', 'how many blocks of 512-block events pass per second?', async (context) => {
    const count = context.size(4, 400)
    const plainRun = newRun(1, prefillFrames(count, 512, vocabulary))
    const wideRun = newRun(1, prefillFrames(count, 512, wideVocabulary))
    const { plain, wide } = await context.compare({ plain: () => plainRun(), wide: () => wideRun() })
    const mblocks = (cpuNs: number) => (512 * count) / (cpuNs / 1000)
    context.report({ id: 'events.prefill512.mblocks_s', value: mblocks(plain.cpuNs), unit: 'M blocks/s', ...plain })
    context.report({ id: 'events.prefill512_wide.mblocks_s', value: mblocks(wide.cpuNs), unit: 'M blocks/s', ...wide })
  }),
  defineBench(
    'events.decode1',
    'how many single-block events pass per second, and what does batching save?',
    async (context) => {
      const count = context.size(64, 40_000)
      const frames = decodeFrames(count)
      const batched = newRun(32, frames)
      const single = newRun(1, frames)
      const { turn, event } = await context.compare({ turn: () => batched(), event: () => single() })
      const perSecond = (cpuNs: number) => count / (cpuNs / 1e6)
      context.report({ id: 'events.decode1.kevents_s', value: perSecond(turn.cpuNs), unit: 'k events/s', ...turn })
      context.report({
        id: 'events.decode1_unbatched.kevents_s',
        value: perSecond(event.cpuNs),
        unit: 'k events/s',
        ...event,
      })
    },
  ),
  defineBench(
    'events.evict512',
    'and with the removals that make room for each 512-block event, one event per block?',
    async (context) => {
      const count = context.size(4, 200)
      const frames = evictingFrames(count)
      const run = newRun(1, frames)
      const { evict } = await context.compare({ evict: () => run() })
      const mblocks = (2 * 512 * count) / (evict.cpuNs / 1000)
      context.report({ id: 'events.evict512.mblocks_s', value: mblocks, unit: 'M blocks/s', ...evict })
    },
  ),
]

interface Frame {
  readonly rank: number
  readonly payload: Uint8Array
}

/** Answers a run over all frames, with one crossing per `framesPerTurn` frames; the checksum is what the index then holds. */
function newRun(framesPerTurn: number, frames: readonly Frame[]): () => string {
  const table = new RankTable()
  for (let rank = 0; rank < ranks; rank++) table.intern(BigInt(rank), 0)
  const device = WasmIndex.create({ seedLo: 1, seedHi: 2 })
  if (!device) throw new Error('WebAssembly does not run here')
  const index = new KvIndex({ ranks: table, device, startMs: 0, seed: 3 })
  const intake = new Intake({
    decoder: new KvEventDecoder(),
    sink: index,
    hasher: createBlockHasher(),
    blockSize,
    seed: 4,
    requestReplay: () => undefined,
  })
  const feeds = Array.from({ length: ranks }, (_, rank): Feed => {
    const feed = intake.addFeed({ rank, dpRank: 0, hasReplay: false })
    feed.machine.connected(0)
    return feed
  })
  const sequences = Array.from({ length: ranks }, () => 0)
  const cleared = encode([1, [{ type: 'AllBlocksCleared' }], 0])
  const send = (rank: number, payload: Uint8Array) => feeds[rank]!.machine.frame(sequences[rank]!++, payload, 0)
  return () => {
    for (let rank = 0; rank < ranks; rank++) send(rank, cleared)
    intake.flush()
    for (let at = 0; at < frames.length; at++) {
      send(frames[at]!.rank, frames[at]!.payload)
      if (at % framesPerTurn === 0) intake.flush()
    }
    intake.flush()
    const { heldBlocks } = device.stats()
    return String(heldBlocks)
  }
}

/** vLLM 0.32's own shape: one batch, one stored event, nothing left out. */
function stored(hashes: bigint[], parent: bigint | null, tokens: number[]): object {
  return {
    type: 'BlockStored',
    block_hashes: hashes,
    parent_block_hash: parent,
    token_ids: tokens,
    block_size: blockSize,
    lora_id: null,
    medium: 'GPU',
    lora_name: null,
    extra_keys: hashes.map(() => null),
    group_idx: 0,
    kv_cache_spec_kind: 'full_attention',
  }
}

function prefillFrames(count: number, blocks: number, ids: number): Frame[] {
  const draw = newDraw(11)
  return Array.from({ length: count }, (_, at) => {
    const hashes = Array.from({ length: blocks }, () => draw.hash())
    const tokens = Array.from({ length: blocks * blockSize }, () => draw.token(ids))
    return { rank: at % ranks, payload: encode([at + 0.5, [stored(hashes, null, tokens)], 0], { useBigInt64: true }) }
  })
}

/** 64 running sequences, each growing by a block in turn. */
function decodeFrames(count: number): Frame[] {
  const draw = newDraw(12)
  const parents = Array.from({ length: 64 }, (): bigint | null => null)
  return Array.from({ length: count }, (_, at) => {
    const sequence = at % 64
    const hash = draw.hash()
    const tokens = Array.from({ length: blockSize }, () => draw.token())
    const event = stored([hash], parents[sequence]!, tokens)
    parents[sequence] = hash
    return { rank: sequence % ranks, payload: encode([at + 0.5, [event], 0], { useBigInt64: true }) }
  })
}

function evictingFrames(count: number): Frame[] {
  const draw = newDraw(13)
  const held: bigint[][] = Array.from({ length: ranks }, () => [])
  return Array.from({ length: count + ranks }, (_, at) => {
    const rank = at % ranks
    const hashes = Array.from({ length: 512 }, () => draw.hash())
    const tokens = Array.from({ length: 512 * blockSize }, () => draw.token())
    const removals = held[rank]!.map((hash) => ({
      type: 'BlockRemoved',
      block_hashes: [hash],
      medium: 'GPU',
      group_idx: 0,
    }))
    held[rank] = hashes
    const events = [...removals, stored(hashes, null, tokens)]
    return { rank, payload: encode([at + 0.5, events, 0], { useBigInt64: true }) }
  })
}

function newDraw(seed: number): { hash: () => bigint; token: (ids?: number) => number } {
  let state = seed
  const next = () => {
    state ^= state << 13
    state ^= state >>> 17
    state ^= state << 5
    return state >>> 0
  }
  return {
    hash: () => (BigInt(next()) << 32n) | BigInt(next()),
    token: (ids = vocabulary) => next() % ids,
  }
}
