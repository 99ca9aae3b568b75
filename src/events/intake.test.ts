import { describe, expect, it } from 'vitest'
import { NaiveSink } from '../../test/naive-sink.js'
import { computeBlockHashes, createBlockHasher } from '../core/hashing/index.js'
import type { StorageTier } from '../core/protocol/index.js'
import { toHashColumn } from '../core/protocol/index.js'
import type { FeedOptions } from './feed.js'
import type { PlainEvent } from './fill-batch.case.js'
import { PlainDecoder } from './fill-batch.case.js'
import { Intake } from './intake.js'

const hasher = createBlockHasher()

/** One rank, block size 2. `send` publishes one batch; what it left is read from the sink and the counters. */
function setUp(options: Partial<FeedOptions> & { imageTokenId?: number; blocksPerRankMax?: number } = {}) {
  const decoder = new PlainDecoder()
  const sink = new NaiveSink()
  const { imageTokenId, blocksPerRankMax, ...feedOptions } = options
  const intake = new Intake({
    decoder,
    sink,
    hasher,
    blockSize: 2,
    seed: 3,
    imageTokenId,
    ...(blocksPerRankMax && { blocksPerRankMax }),
    requestReplay: () => undefined,
  })
  const feed = intake.addFeed({ rank: 0, dpRank: 0, hasReplay: false, ...feedOptions })
  feed.machine.connected(0)
  let sequence = 0
  const send = (events: readonly PlainEvent[], dpRank?: number) => {
    feed.machine.frame(sequence++, decoder.add(events, dpRank), 0)
    intake.flush()
  }
  const held = (tier?: StorageTier, rank = 0) => [...sink.held(rank, tier)]
  const depth = (tokens: number[], names: Parameters<typeof computeBlockHashes>[2] = {}) =>
    sink.depth(0, toHashColumn(computeBlockHashes(tokens, 2, names)))
  const filtered = () =>
    Object.fromEntries(Object.entries(feed.ledger.counters.filtered).filter(([, count]) => count > 0))
  return { intake, feed, send, held, depth, filtered, sink }
}

const store = (hashes: bigint[], more: Partial<PlainEvent> = {}): PlainEvent => ({
  kind: 'stored',
  hashes,
  tokens: hashes.flatMap((hash) => [Number(hash), Number(hash)]),
  ...more,
})
const remove = (hashes: bigint[], more: Partial<PlainEvent> = {}): PlainEvent => ({ kind: 'removed', hashes, ...more })

describe('what passes', () => {
  it.each<[string, PlainEvent, string]>([
    ['a reserved owner', store([1n], { ownership: 'kvcr' }), 'unsupported_ownership'],
    ['an unknown owner', store([1n], { ownership: 'unknown' }), 'unknown_ownership'],
    ['an ignored event', { kind: 'ignored' }, 'ignored_event'],
    ['a remote block', store([1n], { locality: 'remote' }), 'non_local_locality'],
    [
      'a block of unknown locality, on any tier',
      store([1n], { locality: 'unknown', tier: 'disk' }),
      'non_local_locality',
    ],
    ['an unknown medium', store([1n], { tier: 'unknown' }), 'unknown_medium'],
    ['a removal from an unknown medium', remove([1n], { tier: 'unknown' }), 'unknown_medium'],
    ['an unknown attention kind', store([1n], { attention: 'unknown' }), 'unknown_kind'],
    ['another attention kind', store([1n], { attention: 'other' }), 'non_main_attention_kind'],
    ['another attention kind in group 0', store([1n], { attention: 'other', group: 0 }), 'non_main_attention_kind'],
    ['a group that nobody explained', store([1n], { group: 2 }), 'unlearned_group_idx'],
    ['a placeholder without tokens', store([1n], { tokens: [], blockSize: 0, tier: 'hostPinned' }), 'placeholder'],
    ['a storage placeholder', store([1n], { tokens: [], blockSize: 0, tier: 'disk' }), 'placeholder'],
    ['fewer hashes than blocks of tokens', store([1n], { tokens: [1, 1, 2, 2] }), 'masked_group'],
    ['another block size', store([1n], { blockSize: 3, tokens: [1, 1, 1] }), 'wrong_block_size'],
    ['a chain that passes a block twice', store([1n, 2n, 1n]), 'duplicate_hash'],
    ['media under a name of the caller', store([1n], { isOpaque: true }), 'opaque_media'],
  ])('filters %s', (_, event, reason) => {
    const { send, held, filtered } = setUp()
    send([event])
    expect(filtered()).toEqual({ [reason]: 1 })
    expect([...held(), ...held('host_pinned'), ...held('disk')]).toEqual([])
  })

  it('keeps what has its tokens when they run out', () => {
    const { send, held, filtered } = setUp()
    send([store([1n, 2n, 3n], { tokens: [1, 1, 2, 2, 3] })])
    expect(held()).toEqual([1n, 2n])
    expect(filtered()).toEqual({ short_tokens: 1 })
  })

  it('learns a group from stores alone, before filtering them, and rank by rank', () => {
    const { send, held, filtered } = setUp({ rankOf: (dpRank) => dpRank })
    send([store([1n], { group: 1, attention: 'other' }), store([2n], { group: 1 })])
    send([store([3n], { group: 2, attention: 'main' }), store([4n], { group: 2 })])
    send([remove([9n], { group: 3, attention: 'main' }), store([5n], { group: 3 })])
    send([store([6n], { group: 2 })], 1)
    expect(held()).toEqual([3n, 4n])
    expect(held('device', 1)).toEqual([])
    expect(filtered()).toEqual({ non_main_attention_kind: 1, non_main_attention_group: 1, unlearned_group_idx: 1 })
  })

  it('passes groups without a kind only if they are group 0 or none', () => {
    const { send, held } = setUp()
    send([store([1n], { group: 0 }), store([2n])])
    expect(held()).toEqual([1n, 2n])
  })

  it('sends each tier to its own index', () => {
    const { send, held } = setUp()
    send([
      store([1n]),
      store([2n], { tier: 'hostPinned' }),
      store([3n], { tier: 'disk' }),
      store([4n], { tier: 'external' }),
    ])
    expect([held(), held('host_pinned'), held('disk'), held('external')]).toEqual([[1n], [2n], [3n], [4n]])
    send([{ kind: 'cleared' }])
    expect([held(), held('host_pinned'), held('disk'), held('external')]).toEqual([[], [], [], []])
  })
})

describe('copies', () => {
  it('keeps a block until every copy of it is removed', () => {
    const { send, held, feed } = setUp()
    send([store([1n, 2n]), store([1n, 2n])])
    send([remove([2n]), remove([1n])])
    expect(held()).toEqual([1n, 2n])
    send([remove([2n])])
    expect(held()).toEqual([1n])
    expect(feed.ledger.counters).toMatchObject({ doubledBlocks: 2, keptCopies: 2, removedBlocks: 1 })
  })

  it('counts tiers and cache groups apart', () => {
    const { send, held } = setUp()
    send([store([1n]), store([1n], { tier: 'hostPinned' }), store([2n], { group: 1, attention: 'main' }), store([2n])])
    send([remove([1n]), remove([2n], { group: 1 })])
    expect(held()).toEqual([])
    expect(held('host_pinned')).toEqual([1n])
  })

  it('passes removals of blocks that it never saw', () => {
    const { send, feed } = setUp()
    send([remove([7n])])
    expect(feed.ledger.counters).toMatchObject({ unknownRemovals: 1, removedBlocks: 1 })
  })

  it('does not count a report of a prefix that was asked for', () => {
    const { send, held, feed } = setUp()
    send([store([1n, 2n])])
    feed.ledger.expectReport(Uint32Array.of(1, 1, 2, 2, 3))
    send([store([1n, 2n])])
    send([remove([2n])])
    expect(held()).toEqual([1n])
    expect(feed.ledger.counters.reports).toBe(1)
  })

  it('starts counting anew after a clear', () => {
    const { send, held } = setUp()
    send([store([1n]), store([1n]), { kind: 'cleared' }, store([1n]), remove([1n])])
    expect(held()).toEqual([])
  })
})

describe('namespaces', () => {
  it('carries the salt of block 0 down the chain', () => {
    const { send, depth } = setUp()
    send([store([1n], { namespace: 'a' }), store([2n], { parent: 1n })])
    send([store([3n], { parent: 2n })])
    expect(depth([1, 1, 2, 2, 3, 3], { cacheNamespace: 'a' })).toBe(3)
    expect(depth([1, 1, 2, 2, 3, 3])).toBe(0)
  })

  it('refuses to extend a hash that was seen in two namespaces', () => {
    const { send, filtered } = setUp()
    send([store([1n], { namespace: 'a' }), store([1n], { namespace: 'b' }), store([2n], { parent: 1n })])
    expect(filtered()).toEqual({ ambiguous_cache_namespace: 1 })
  })

  it('keeps an ambiguous hash ambiguous after its removal, and forgets it at a clear', () => {
    const { send, filtered } = setUp()
    send([store([1n], { namespace: 'a' }), store([1n])])
    send([remove([1n]), remove([1n]), store([1n]), store([2n], { parent: 1n })])
    expect(filtered()).toEqual({ ambiguous_cache_namespace: 1 })
    send([{ kind: 'cleared' }, store([1n]), store([2n], { parent: 1n })])
    expect(filtered()).toEqual({ ambiguous_cache_namespace: 1 })
  })

  it('treats an unknown parent as unsalted, and an empty salt as none', () => {
    const { send, depth } = setUp()
    send([store([1n], { namespace: '' })])
    expect(depth([1, 1])).toBe(1)
  })

  it('leaves the namespaces alone for disk events', () => {
    const { send, depth } = setUp()
    send([store([1n], { namespace: 'a', tier: 'disk' }), store([1n]), store([2n], { parent: 1n })])
    expect(depth([1, 1, 2, 2])).toBe(2)
  })
})

describe('hashes', () => {
  it('keeps adapters apart', () => {
    const { send, depth } = setUp()
    send([store([1n], { adapter: 'sql' })])
    expect([depth([1, 1], { loraName: 'sql' }), depth([1, 1])]).toEqual([1, 0])
  })

  it('hashes overlapping windows of bigrams', () => {
    const { send, depth } = setUp()
    send([store([1n, 2n], { tokens: [10, 11, 12, 13, 14], isEagle: true })])
    expect(depth([10, 11, 12, 13, 14], { isEagle: true })).toBe(2)
  })

  it('mixes media in, or replaces the image token by their pad value', () => {
    const media = [[1, 42n]] as const
    const mixed = setUp()
    mixed.send([store([1n, 2n], { tokens: [1, 1, 9, 9], media })])
    const infos = [null, { mmObjects: [{ mmHash: 42n, offsets: [] }] }]
    expect(mixed.depth([1, 1, 9, 9], { blockExtraInfo: infos })).toBe(2)
    expect(mixed.depth([1, 1, 9, 9])).toBe(1)
    const padded = setUp({ imageTokenId: 9 })
    padded.send([store([1n, 2n], { tokens: [1, 1, 9, 9], media })])
    expect(padded.depth([1, 1, 1_000_042, 1_000_042])).toBe(2)
  })
})

describe('bounds and beliefs', () => {
  it('counts stores below a parent from before it joined, and gives no credit for them', () => {
    const { send, held, feed } = setUp()
    send([store([5n], { parent: 4n }), store([1n])])
    expect(held()).toEqual([1n])
    expect(feed.ledger.counters.unrootedStores).toBe(1)
  })

  it('does not believe more blocks than the engine has', () => {
    const { send, held, feed } = setUp({ usableBlocks: 3 })
    send([store([1n, 2n, 3n])])
    expect(held()).toHaveLength(3)
    send([store([4n], { parent: 3n })])
    expect(held()).toEqual([])
    expect(feed.status(0).purges.over_capacity).toBe(1)
  })

  it('empties a lower tier that never hears of removals', () => {
    const { send, held, feed } = setUp({ blocksPerRankMax: 2 })
    send([store([1n, 2n], { tier: 'hostPinned' })])
    send([store([3n], { tier: 'hostPinned' })])
    expect(held('host_pinned')).toEqual([3n])
    expect(feed.ledger.counters.tierOverflows).toBe(1)
  })

  it('crosses into the index once for all events of a turn, and at once for a purge', () => {
    const { intake, sink, feed } = setUp()
    const decoder = new PlainDecoder()
    const before = sink.crossings
    const own = new Intake({ decoder, sink, hasher, blockSize: 2, seed: 1, requestReplay: () => undefined })
    const other = own.addFeed({ rank: 4, dpRank: 0, hasReplay: false })
    other.machine.connected(0)
    for (let sequence = 0; sequence < 5; sequence++) {
      other.machine.frame(sequence, decoder.add([store([BigInt(sequence + 1)])]), 0)
    }
    expect(sink.crossings).toBe(before)
    own.flush()
    expect(sink.crossings).toBe(before + 1)
    other.machine.frame(9, decoder.add([store([9n])]), 0)
    expect([...sink.held(4)]).toEqual([])
    expect(intake.isCredited(0)).toBe(true)
    feed.machine.disconnected(0)
    expect(intake.isCredited(0)).toBe(false)
  })

  it('counts a batch that names another rank, and sends it where it belongs when several ranks share a stream', () => {
    const lone = setUp()
    lone.send([store([1n])], 3)
    expect(lone.feed.status(0).rankMismatches).toBe(1)
    const shared = setUp({ rankOf: (dpRank) => (dpRank < 2 ? dpRank : undefined) })
    shared.send([store([1n])], 1)
    shared.send([store([2n])], 5)
    expect(shared.held('device', 1)).toEqual([1n])
    expect(shared.filtered()).toEqual({ foreign_rank: 1 })
    shared.intake.removeFeed(0)
    expect(shared.held('device', 1)).toEqual([])
  })

  it('forgets at once when we reset the engine ourselves', () => {
    const { send, held, feed } = setUp()
    send([store([1n])])
    feed.cacheReset()
    expect(held()).toEqual([])
  })
})
