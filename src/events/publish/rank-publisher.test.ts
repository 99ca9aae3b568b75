import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { KvIndex, WasmIndex } from '../../core/index/index.js'
import type { KvCacheEventData, RouterEvent, StorageTier } from '../../core/protocol/index.js'
import { newRouterEvent, RankTable } from '../../core/protocol/index.js'
import { QueryRank } from '../query/query-rank.js'
import type { WorkerQuery, WorkerReply } from '../query/worker-query.js'
import type { DraftEvent } from './coalescer.js'
import { LocalIndex } from './local-index.js'
import { messageBlocksMax, messageEventsMax, RankPublisher } from './rank-publisher.js'

const owner = { workerId: 7n, dpRank: 0 }
const blocks = (hashes: bigint[]) =>
  hashes.map((hash) => ({ blockHash: hash, tokensHash: hash + 1000n, mmExtraInfo: null }))
const draft = (data: KvCacheEventData, tier: StorageTier = 'device', dpRank = 0): DraftEvent => ({ dpRank, tier, data })
const store = (hashes: bigint[], parentHash: bigint | null = null, tier?: StorageTier, dpRank?: number) =>
  draft({ kind: 'stored', parentHash, startPosition: null, blocks: blocks(hashes) }, tier, dpRank)
const remove = (blockHashes: bigint[], tier?: StorageTier, dpRank?: number) =>
  draft({ kind: 'removed', blockHashes }, tier, dpRank)
const clear = draft({ kind: 'cleared' })

function newPublisher(options: { timeoutMs?: number; local?: LocalIndex } = {}) {
  const messages: RouterEvent[][] = []
  const publisher = new RankPublisher({ ...owner, ...options, send: (events) => void messages.push([...events]) })
  /** Each event in short: `1:+2` is id 1 storing two blocks, `-` removes, `0` clears. */
  const said = () => messages.flat().map(short)
  return { publisher, messages, said }
}

function short({ event }: RouterEvent): string {
  const { data } = event
  if (data.kind === 'stored') return `${event.eventId}:+${data.blocks.length}`
  return data.kind === 'removed' ? `${event.eventId}:-${data.blockHashes.length}` : `${event.eventId}:0`
}

describe('joining', () => {
  it('joins stores that continue each other and removals that follow each other, inside one list', () => {
    const { publisher, said } = newPublisher()
    publisher.addList([store([1n, 2n]), store([3n], 2n), remove([8n]), remove([9n]), store([4n], 3n)], 0)
    expect(said()).toEqual(['1:+3', '2:-2', '3:+1'])
  })

  it('flushes at a broken chain, another tier, another rank and a clear, with ids from 1', () => {
    const { publisher, said } = newPublisher()
    publisher.addList(
      [store([1n]), store([5n], 4n), store([6n], 5n, 'disk'), store([7n], 6n, 'disk', 1), clear, store([1n])],
      0,
    )
    expect(said()).toEqual(['1:+1', '2:+1', '3:+1', '4:+1', '5:0', '6:+1'])
  })

  it('flushes at every list without a timeout, and by the clock since the last flush with one', () => {
    const without = newPublisher()
    without.publisher.addList([store([1n])], 0)
    without.publisher.addList([store([2n], 1n)], 0)
    expect(without.said()).toEqual(['1:+1', '2:+1'])
    const timed = newPublisher({ timeoutMs: 50 })
    timed.publisher.addList([store([1n])], 1000) // the first after silence leaves at once
    timed.publisher.addList([store([2n], 1n)], 1010)
    timed.publisher.addList([store([3n], 2n)], 1020)
    expect(timed.said()).toEqual(['1:+1'])
    expect(timed.publisher.nextDeadline).toBe(1050)
    timed.publisher.tick(1050)
    expect(timed.said()).toEqual(['1:+1', '2:+2'])
  })

  it('ends a batch at 128 blocks, between events and never inside one', () => {
    const { publisher, said } = newPublisher()
    const chain = Array.from({ length: 3 }, (_, at) => {
      const first = BigInt(at * 100 + 1)
      const hashes = Array.from({ length: 100 }, (_, index) => first + BigInt(index))
      return store(hashes, at === 0 ? null : first - 1n)
    })
    publisher.addList(
      [
        ...chain,
        store(
          Array.from({ length: 200 }, (_, index) => BigInt(301 + index)),
          300n,
        ),
      ],
      0,
    )
    expect(said()).toEqual(['1:+200', '2:+100', '3:+200'])
  })
})

describe('copies', () => {
  it('publishes a removal only with the last copy, and gives no id to what is left of nothing', () => {
    const { publisher, said } = newPublisher()
    publisher.addList([store([1n, 2n])], 0)
    publisher.addList([store([1n])], 0)
    publisher.addList([remove([1n])], 0)
    publisher.addList([remove([1n, 2n])], 0)
    publisher.addList([remove([1n])], 0)
    expect(said()).toEqual(['1:+2', '2:+1', '3:-2', '4:-1'])
    expect(publisher.counters.filtered).toBe(1)
  })

  it('counts ranks and tiers apart, and forgets one rank at its clear', () => {
    const { publisher, said } = newPublisher()
    publisher.addList(
      [store([1n]), store([1n], null, 'disk'), store([1n], null, 'device', 1), store([1n], null, 'device', 1)],
      0,
    )
    publisher.addList([remove([1n])], 0)
    publisher.addList([clear], 0)
    publisher.addList([remove([1n], 'device', 1)], 0)
    expect(said().slice(4)).toEqual(['5:-1', '6:0'])
  })
})

describe('messages', () => {
  it('carries at most 128 events and 8192 blocks, and one larger event alone', () => {
    const { publisher, messages } = newPublisher()
    publisher.addList(
      Array.from({ length: 300 }, (_, index) => store([BigInt(2 * index + 1)])),
      0,
    )
    expect(messages.map((message) => message.length)).toEqual([
      messageEventsMax,
      messageEventsMax,
      300 - 2 * messageEventsMax,
    ])
    const large = (first: number) => store(Array.from({ length: 5000 }, (_, index) => BigInt(first + index)))
    publisher.addList(
      [
        large(1000),
        large(10_000),
        store(Array.from({ length: messageBlocksMax + 1 }, (_, index) => BigInt(50_000 + index))),
      ],
      0,
    )
    expect(messages.slice(3).map((message) => message.length)).toEqual([1, 1, 1])
  })

  it('goes on after a message that could not be sent', () => {
    let isBroken = true
    const sent: string[] = []
    const publisher = new RankPublisher({
      ...owner,
      send: (events) => {
        if (isBroken) throw new Error('no')
        sent.push(...events.map(short))
      },
    })
    publisher.addList([store([1n])], 0)
    isBroken = false
    publisher.addList([store([2n])], 0)
    expect(sent).toEqual(['2:+1'])
    expect(publisher.counters.sendFailures).toBe(1)
  })

  it('publishes what the own index refused, but stops for good at a clear that it refused', () => {
    const index = {
      applyEvents: () => {
        throw new Error('broken')
      },
      dump: () => [],
    }
    const { publisher, said } = newPublisher({ local: new LocalIndex({ ...owner, index }) })
    publisher.addList([store([1n])], 0)
    publisher.addList([clear, store([2n])], 0)
    expect(said()).toEqual(['1:+1'])
    expect(publisher.isStopped).toBe(true)
  })
})

function newIndex(): KvIndex {
  const device = WasmIndex.create({ seedLo: 1, seedHi: 2 })!
  return new KvIndex({ ranks: new RankTable(), device, startMs: 0, seed: 1 })
}

function newLocal(ringCapacity: number) {
  const index = newIndex()
  let dumps = 0
  const counted = {
    applyEvents: (events: Iterable<RouterEvent>) => index.applyEvents(events),
    dump: () => {
      dumps++
      return index.dump()
    },
  }
  const local = new LocalIndex({ ...owner, index: counted, ringCapacity })
  const ask = (start: number | null, end: number | null = null, more: Partial<WorkerQuery> = {}) =>
    local.answer({
      ...owner,
      startEventId: start === null ? null : BigInt(start),
      endEventId: end === null ? null : BigInt(end),
      supportsTreeDumpFailed: true,
      ...more,
    })
  const publish = (
    id: number,
    data: KvCacheEventData = { kind: 'stored', parentHash: null, startPosition: null, blocks: blocks([BigInt(id)]) },
  ) => local.apply(newRouterEvent(owner, BigInt(id), data))
  return { local, ask, publish, dumps: () => dumps }
}

const idsOf = (reply: WorkerReply) =>
  'events' in reply ? reply.events.map((event) => Number(event.event.eventId)) : []

describe('the worker-local index', () => {
  it('answers every range from a ring of 5 with ids 5 to 14', () => {
    const { ask, publish } = newLocal(5)
    expect(ask(3)).toMatchObject({ kind: 'tree_dump', lastEventId: 0n, events: [] })
    for (let id = 5; id <= 14; id++) publish(id)
    expect(ask(null)).toMatchObject({ kind: 'tree_dump', lastEventId: 14n, resetScope: 'all' })
    expect(ask(9)).toMatchObject({ kind: 'tree_dump' })
    expect(idsOf(ask(10))).toEqual([10, 11, 12, 13, 14])
    expect(idsOf(ask(12, 13))).toEqual([12, 13, 14])
    expect(ask(15)).toEqual({ kind: 'too_new', requestedStart: 15n, requestedEnd: null, newestAvailable: 14n })
    expect(ask(12, 11)).toEqual({ kind: 'invalid_range', startId: 12n, endId: 11n })
    expect(ask(12, null, { workerId: 8n })).toMatchObject({
      kind: 'error',
      message: expect.stringContaining('worker_id mismatch') as string,
    })
    expect(ask(12, null, { dpRank: 1 })).toMatchObject({
      message: expect.stringContaining('dp_rank mismatch') as string,
    })
  })

  it('starts a range at the last clear of everything, and not at a clear of the worker', () => {
    const { local, ask, publish } = newLocal(10)
    for (let id = 10; id <= 15; id++) {
      const isClear = id === 11 || id === 14
      if (isClear)
        local.apply({ ...newRouterEvent(owner, BigInt(id), { kind: 'cleared' }), residencyDomain: 'missing' })
      else publish(id)
    }
    expect(idsOf(ask(10))).toEqual([14, 15])
    publish(16, { kind: 'cleared' })
    publish(17)
    expect(idsOf(ask(15))).toEqual([15, 16, 17])
  })

  it('dumps once while nothing changes, appends a short tail, and dumps anew after growth, a gap or a clear', () => {
    const { ask, publish, dumps } = newLocal(5)
    publish(1)
    ask(null)
    ask(null)
    expect(dumps()).toBe(1)
    publish(2)
    publish(3)
    expect(ask(null)).toMatchObject({ lastEventId: 3n })
    expect(dumps()).toBe(1)
    publish(4) // more than half a ring past the base
    ask(null)
    expect(dumps()).toBe(2)
    publish(9)
    ask(null)
    expect(dumps()).toBe(3)
    publish(10, { kind: 'cleared' })
    expect(ask(null)).toMatchObject({ events: [] })
    expect(dumps()).toBe(4)
  })

  it('says that a dump failed to those who understand it, and keeps no failed dump', () => {
    let isBroken = true
    const index = {
      applyEvents: () => [],
      dump: () => {
        if (isBroken) throw new Error('disk')
        return []
      },
    }
    const local = new LocalIndex({ ...owner, index })
    const query = { ...owner, startEventId: null, endEventId: null, supportsTreeDumpFailed: true }
    expect(local.answer(query)).toEqual({ kind: 'tree_dump_failed', lastEventId: 0n, message: 'disk' })
    expect(local.answer({ ...query, supportsTreeDumpFailed: false })).toEqual({
      kind: 'error',
      message: 'worker tree dump failed: disk',
    })
    isBroken = false
    expect(local.answer(query)).toMatchObject({ kind: 'tree_dump' })
  })
})

// Goal: a router that misses, repeats and reorders messages ends with what the worker holds, once it can ask in peace.
// A dump leaves out what lies behind a hole, so a router that asked then may know less of that chain, never more.
// Method: random lists through a publisher with a small ring; a lossy link; queries that fail; then a quiet end.
it('brings a router to what the worker holds, whatever the link did', () => {
  const anyEvent = fc.oneof(
    { weight: 6, arbitrary: fc.tuple(fc.constant('store' as const), fc.nat(5), fc.integer({ min: 1, max: 4 })) },
    { weight: 3, arbitrary: fc.tuple(fc.constant('remove' as const), fc.nat(5), fc.integer({ min: 1, max: 4 })) },
    { weight: 1, arbitrary: fc.tuple(fc.constant('clear' as const), fc.nat(1), fc.nat(1)) },
  )
  const anyStep = fc.record({
    event: anyEvent,
    fate: fc.constantFrom('arrives', 'arrives', 'arrives', 'lost', 'twice', 'late'),
    fails: fc.boolean(),
  })
  fc.assert(
    fc.property(fc.array(anyStep, { maxLength: 60 }), fc.constantFrom(3, 64), (steps, ringCapacity) => {
      const worker = newIndex()
      const local = new LocalIndex({ ...owner, index: worker, ringCapacity })
      const outgoing: RouterEvent[] = []
      const publisher = new RankPublisher({ ...owner, local, send: (events) => void outgoing.push(...events) })
      const router = newIndex()
      const questions: [bigint | null, number][] = []
      const rank = new QueryRank(
        {
          apply: (events) => (router.applyEvents(events), true),
          reset: () => (router.removeWorker(owner.workerId), true),
          query: (start, ticket) => void questions.push([start, ticket]),
        },
        { ...owner, isRecoverable: true },
      )
      let now = 0
      const reply = (fails: boolean) => {
        for (const [start, ticket] of questions.splice(0)) {
          if (fails) rank.failed(ticket, now)
          else
            rank.answer(
              ticket,
              local.answer({ ...owner, startEventId: start, endEventId: null, supportsTreeDumpFailed: true }),
              now,
            )
        }
        rank.tick((now += 10_000))
      }
      rank.activate(now)
      const late: RouterEvent[] = []
      for (const { event, fate, fails } of steps) {
        publisher.addList(toDrafts(event), now)
        for (const it of outgoing.splice(0)) {
          if (fate === 'late') late.push(it)
          else if (fate !== 'lost') rank.live(it, now)
          if (fate === 'twice') rank.live(it, now)
        }
        if (fate === 'arrives') for (const it of late.splice(0)) rank.live(it, now)
        reply(fails)
      }
      publisher.addList(toDrafts(['store', 5, 4]), now)
      for (const it of outgoing.splice(0)) rank.live(it, now)
      for (let round = 0; round < 10; round++) reply(false)
      publisher.addList(toDrafts(['store', 4, 4]), now)
      for (const it of outgoing.splice(0)) rank.live(it, now)
      for (let round = 0; round < 10; round++) reply(false)
      expect(rank.isCredited).toBe(true)
      const there = new Set(held(worker))
      const known = held(router)
      expect(known.filter((hash) => !there.has(hash))).toEqual([])
      expect(known.filter((hash) => isFresh(hash))).toEqual([...there].filter(isFresh))
    }),
    { numRuns: 40 },
  )
})

/** Chains of up to four blocks, in six families. */
function toDrafts([kind, family, depth]: readonly [string, number, number]): DraftEvent[] {
  const chain = Array.from({ length: Math.max(1, depth) }, (_, at) => BigInt(100 * family + at + 1))
  if (kind === 'clear') return [clear]
  return kind === 'store' ? [store(chain)] : [remove([chain.at(-1)!])]
}

/** Of the two chains that were stored in the quiet at the end. */
function isFresh(hash: string): boolean {
  return hash.startsWith('4') || hash.startsWith('5')
}

function held(index: KvIndex): string[] {
  return [...index.dump()]
    .flatMap(({ event }) =>
      event.data.kind === 'stored' ? event.data.blocks.map((block) => String(block.blockHash)) : [],
    )
    .sort()
}
