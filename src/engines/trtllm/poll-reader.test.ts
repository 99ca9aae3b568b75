import { expect, it } from 'vitest'
import { hashAt } from '../../core/protocol/index.js'
import { DecodedBatch, eventKind } from '../../events/index.js'
import { TrtllmPollReader } from './poll-reader.js'

const tokens = (...ids: number[]) => ids.map((token_id) => ({ type: 'unique_token', token_id, token_extra_id: 0 }))
const block = (block_hash: number | string, ids: number[], cache_level = 0) => ({
  type: 'stored_block',
  block_hash,
  tokens: tokens(...ids),
  cache_level,
  priority: 35,
})
const stored = (event_id: number, blocks: unknown[], parent_hash: number | null = null, window_size = 8) => ({
  event_id,
  window_size,
  data: { type: 'stored', parent_hash, blocks },
})
const removed = (event_id: number, ...block_hashes: number[]) => ({
  event_id,
  window_size: 8,
  data: { type: 'removed', block_hashes },
})

function newReader() {
  const reader = new TrtllmPollReader({ blockSize: 2, dpRank: 0 })
  const batch = new DecodedBatch()
  return (value: unknown) => {
    // Hashes beyond 2^53 are written as text and sent as bare integers.
    const text = typeof value === 'string' ? value : JSON.stringify(value).replaceAll(/"(\d{10,})"/g, '$1')
    const reason = reader.decode(new TextEncoder().encode(text), batch)
    if (reason) return reason
    return Array.from({ length: batch.eventCount }, (_, event) => ({
      kind: Object.keys(eventKind)[batch.kind[event]!],
      tier: batch.tier[event],
      parent: batch.hasParent[event] ? hashAt(batch.parents, event) : undefined,
      hashes: Array.from({ length: batch.hashCount[event]! }, (_, index) =>
        hashAt(batch.hashes, batch.hashStart[event]! + index),
      ),
      tokens: [...batch.tokens.subarray(batch.tokenStart[event]!, batch.tokenStart[event]! + batch.tokenCount[event]!)],
    }))
  }
}

it('reads stored and removed blocks, with hashes of 64 bits', () => {
  const read = newReader()
  expect(
    read([{ event_id: 0, window_size: 8, data: { type: 'created', num_blocks_per_cache_level: [9, 0] } }]),
  ).toEqual([])
  expect(read([stored(1, [block('18446744073709551615', [1, 2]), block(7, [3, 4])], 5), removed(2, 7)])).toEqual([
    { kind: 'stored', tier: 0, parent: 5n, hashes: [2n ** 64n - 1n, 7n], tokens: [1, 2, 3, 4] },
    { kind: 'removed', tier: 0, parent: undefined, hashes: [7n], tokens: [] },
  ])
})

it('keeps partial blocks out, and their removal too', () => {
  const read = newReader()
  expect(read([stored(1, [block(1, [1, 2]), block(2, [3])])])).toMatchObject([{ hashes: [1n], tokens: [1, 2] }])
  expect(read([removed(2, 2)])).toEqual([])
})

it('purges by a reason of its own when an id is skipped, and goes on counting', () => {
  const read = newReader()
  expect(read([stored(4, [block(1, [1, 2])])])).toHaveLength(1)
  expect(read([removed(6, 1)])).toBe('lost_events')
  expect(read([removed(7, 1)])).toHaveLength(1)
})

it('listens to the largest attention window only, and to its own rank', () => {
  const read = newReader()
  read([stored(1, [block(1, [1, 2])], null, 100)])
  expect(read([stored(2, [block(2, [1, 2])], null, 50)])).toEqual([])
  expect(read([{ ...stored(9, [block(3, [1, 2])]), attention_dp_rank: 1 }])).toEqual([])
})

it('takes a block that moved to the host as gone from the device', () => {
  const read = newReader()
  const data = { type: 'updated', block_hash: 1, cache_level: { type: 'diff', old_value: 0, new_value: 1 } }
  expect(read([{ event_id: 1, window_size: 8, data }])).toMatchObject([{ kind: 'removed', tier: 0, hashes: [1n] }])
  expect(read([{ event_id: 2, window_size: 8, data: { type: 'updated', block_hash: 1, priority: {} } }])).toEqual([])
})

it.each([
  ['', 'bad_json'],
  ['{}', 'not_a_batch'],
  ['[3]', 'bad_event'],
  ['[{"event_id":"x"}]', 'bad_event'],
])('refuses %j with a reason', (text, reason) => {
  expect(newReader()(text)).toBe(reason)
})
