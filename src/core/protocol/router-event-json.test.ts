import { decode, encode } from '@msgpack/msgpack'
import fc from 'fast-check'
import { expect, it } from 'vitest'
import { WarmrouteError } from './errors.js'
import { type JsonValue, parseLosslessJson, stringifyLosslessJson } from './lossless-json.js'
import { anyRouterEvent, cacheOwner } from './router-event.case.js'
import { parseRouterEvents, readRouterEvent, stringifyRouterEvents } from './router-event-json.js'
import { newRouterEvent, type RouterEvent } from './router-event.js'

const stored = newRouterEvent({ workerId: 7n, dpRank: 0 }, 1n, {
  kind: 'stored',
  parentHash: null,
  startPosition: null,
  blocks: [{ blockHash: 101n, tokensHash: 11n, mmExtraInfo: null }],
})
const storedText =
  '{"worker_id":7,"storage_tier":"device","residency_domain":"worker","event":{"event_id":1,"data":{"stored":{"parent_hash":null,"start_position":null,"blocks":[{"block_hash":101,"tokens_hash":11,"mm_extra_info":null}]}},"dp_rank":0}}'

it('writes and reads the bytes of the reference event', () => {
  expect(stringifyRouterEvents([stored])).toBe(`[${storedText}]`)
  expect(parseRouterEvents(`[${storedText}]`)).toEqual([stored])
})

// The event plane carries the same members as MessagePack maps; this is upstream's own sample of them.
const storedBytes =
  '9184a9776f726b65725f696407ac73746f726167655f74696572a6646576696365b07265736964656e63795f646f6d61696ea6776f726b6572a56576656e7483a86576656e745f696401a46461746181a673746f72656483ab706172656e745f68617368c0ae73746172745f706f736974696f6ec0a6626c6f636b739183aa626c6f636b5f6861736865ab746f6b656e735f686173680bad6d6d5f65787472615f696e666fc0a764705f72616e6b00'

it('has the members of the MessagePack form, in its order', () => {
  const members = wholeNumbers(decode(Buffer.from(storedBytes, 'hex'), { useBigInt64: true })) as JsonValue[]
  expect(members.map((it) => readRouterEvent(it))).toEqual([stored])
  const written = JSON.parse(stringifyRouterEvents([stored])) as unknown
  expect(Buffer.from(encode(written)).toString('hex')).toBe(storedBytes)
})

it('reads a list of older and newer publishers: what it cannot place is marked, and its neighbours are kept', () => {
  const of = (domain: unknown) => ({
    worker_id: 7,
    ...(domain === undefined ? {} : { residency_domain: domain }),
    event: { event_id: 1, data: 'cleared' },
  })
  const bytes = encode([of(undefined), of('worker'), of('of_tomorrow'), of(null), of('cache_owner')])
  const members = wholeNumbers(decode(bytes, { useBigInt64: true })) as JsonValue[]
  expect(members.map((it) => readRouterEvent(it).residencyDomain)).toEqual([
    'missing',
    'worker',
    'unknown',
    'invalid',
    'cache_owner',
  ])
})

/** MessagePack's small integers arrive as numbers, JSON's never do. */
function wholeNumbers(value: unknown): unknown {
  if (typeof value === 'number') return BigInt(value)
  if (Array.isArray(value)) return value.map(wholeNumbers)
  if (value === null || typeof value !== 'object') return value
  return Object.fromEntries(Object.entries(value).map(([key, it]) => [key, wholeNumbers(it)]))
}

it('keeps every event through text, u64 values included', () => {
  fc.assert(
    fc.property(fc.array(anyRouterEvent, { maxLength: 5 }), (events) => {
      expect(parseRouterEvents(stringifyRouterEvents(events))).toEqual(events)
    }),
  )
})

it('fills in what older publishers leave out', () => {
  const text = '{"worker_id":1,"event":{"event_id":2,"data":{"stored":{"blocks":[{"block_hash":3,"tokens_hash":4}]}}}}'
  expect(readRouterEvent(parseLosslessJson(text))).toEqual({
    workerId: 1n,
    storageTier: 'device',
    residencyDomain: 'missing',
    event: {
      eventId: 2n,
      dpRank: 0,
      data: {
        kind: 'stored',
        parentHash: null,
        startPosition: null,
        blocks: [{ blockHash: 3n, tokensHash: 4n, mmExtraInfo: null }],
      },
    },
  })
})

it.each([
  { says: 'no member is missing', member: '', domain: 'missing' },
  { says: 'other text is unknown', member: '"residency_domain":"moon",', domain: 'unknown' },
  { says: 'null is invalid', member: '"residency_domain":null,', domain: 'invalid' },
  { says: 'a list is invalid', member: '"residency_domain":[],', domain: 'invalid' },
  { says: 'a number is invalid', member: '"residency_domain":1,', domain: 'invalid' },
])('residency domain: $says', ({ member, domain }) => {
  const text = `{"worker_id":1,${member}"event":{"event_id":2,"data":"cleared"}}`
  expect(readRouterEvent(parseLosslessJson(text)).residencyDomain).toBe(domain)
})

it('puts state_source last and reads it back', () => {
  const event: RouterEvent = {
    ...stored,
    storageTier: 'disk',
    residencyDomain: 'cache_owner',
    stateSource: cacheOwner(5),
  }
  const text = stringifyRouterEvents([event])
  expect(text).toMatch(
    /"state_source":\{"pool":\{"indexer_domain":.*\},"slot":\{"digest":\[0,.*,5\],"source":"explicit"\}\}\}\]$/,
  )
  expect(parseRouterEvents(text)).toEqual([event])
})

it.each([
  ['a tier that does not exist', '"storage_tier":"tape",', '"cleared"'],
  ['an unknown kind', '', '{"moved":{}}'],
  ['two kinds at once', '', '{"stored":{"blocks":[]},"removed":{"block_hashes":[]}}'],
  ['a hash above 64 bits', '', '{"removed":{"block_hashes":[18446744073709551616]}}'],
  ['a negative hash', '', '{"removed":{"block_hashes":[-1]}}'],
  ['a hash that is text', '', '{"removed":{"block_hashes":["1"]}}'],
  ['no blocks', '', '{"stored":{}}'],
])('refuses %s', (_says, member, data) => {
  const text = `[{"worker_id":1,${member}"event":{"event_id":2,"data":${data}}}]`
  expect(() => parseRouterEvents(text)).toThrow(expect.objectContaining({ code: 'WR_INVALID_EVENT' }))
})

// Goal: whatever is broken in a document, the reader answers with an event or with one typed error.
it('never fails in another way', () => {
  const spoil = fc.constantFrom<JsonValue>(null, true, -1n, 2n ** 64n, 1.5, 'x', [], {})
  fc.assert(
    fc.property(anyRouterEvent, fc.nat(40), spoil, (event, target, value) => {
      const document = parseLosslessJson(stringifyRouterEvents([event]))
      replaceAt(document, { left: target }, value)
      try {
        parseRouterEvents(stringifyLosslessJson(document))
      } catch (error) {
        expect(error).toBeInstanceOf(WarmrouteError)
      }
    }),
  )
})

/** Replaces the n-th member found on a walk through the document. */
function replaceAt(node: JsonValue, counter: { left: number }, value: JsonValue): void {
  if (node === null || typeof node !== 'object') return
  for (const key of Object.keys(node)) {
    const members = node as Record<string, JsonValue>
    if (counter.left-- === 0) members[key] = value
    else replaceAt(members[key]!, counter, value)
  }
}
