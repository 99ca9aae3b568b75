/** Turns held blocks into events that build them again: neighbours of one chain become one event, parents come first. */
import {
  type CacheOwnerId,
  type RouterEvent,
  type StorageTier,
  type StoredBlock,
  type WorkerRank,
} from '../protocol/index.js'
import type { BlockFact } from './prefix-index.js'

/** As many blocks as one message of upstream's event plane may carry. */
const blocksPerEventMax = 8192

/** Whose facts, and where they lie. A cache owner's events carry worker 0 and the owner itself. */
export interface FactSource {
  readonly pair: WorkerRank
  readonly tier: StorageTier
  readonly owner?: CacheOwnerId
  readonly facts: Iterable<Readonly<BlockFact>>
}

/** Event ids count up from 0 over all sources. */
export function* dumpEvents(sources: Iterable<FactSource>): Iterable<RouterEvent> {
  let eventId = 0n
  for (const source of sources) {
    for (const { parentHash, blocks } of chains(source.facts)) {
      const data = { kind: 'stored', parentHash, startPosition: null, blocks } as const
      const event = { eventId: eventId++, data, dpRank: source.pair.dpRank }
      const common = { workerId: source.pair.workerId, storageTier: source.tier, event }
      yield source.owner
        ? { ...common, residencyDomain: 'cache_owner', stateSource: source.owner }
        : { ...common, residencyDomain: 'worker' }
    }
  }
}

interface Chain {
  readonly parentHash: bigint | null
  readonly blocks: StoredBlock[]
}

function* chains(facts: Iterable<Readonly<BlockFact>>): Iterable<Chain> {
  let chain: Chain | undefined
  let lastLo = 0
  let lastHi = 0
  for (const fact of facts) {
    const follows = fact.hasParent && fact.parentLo === lastLo && fact.parentHi === lastHi
    if (!chain || !follows || chain.blocks.length === blocksPerEventMax) {
      if (chain) yield chain
      chain = { parentHash: fact.hasParent ? toBigInt(fact.parentLo, fact.parentHi) : null, blocks: [] }
    }
    chain.blocks.push({
      blockHash: toBigInt(fact.externalLo, fact.externalHi),
      tokensHash: toBigInt(fact.localLo, fact.localHi),
      mmExtraInfo: null,
    })
    lastLo = fact.externalLo
    lastHi = fact.externalHi
  }
  if (chain) yield chain
}

function toBigInt(lo: number, hi: number): bigint {
  return (BigInt(hi) << 32n) | BigInt(lo)
}
