// Every header of spec/serving.md 1.8 and every field of 1.9 that routing reads, alone and against each other.
import { readFileSync } from 'node:fs'
import { expect, it } from 'vitest'
import type { JsonObject } from '../../core/protocol/index.js'
import { parseLosslessJson } from '../../core/protocol/index.js'
import { defaultLimits } from '../options.js'
import type { RoutingHints } from './hints.js'
import { readHints } from './hints.js'
import { nvextFields } from './strict.js'

function hintsOf(headers: Record<string, string>, nvext?: object, body: object = {}): RoutingHints {
  const fields = nvext && (parseLosslessJson(JSON.stringify(nvext)) as JsonObject)
  return readHints(headers, { ...body }, fields && { fields, longTokens: undefined }, defaultLimits)
}

const worker = 7n
const none = undefined

// biome-ignore format: a table
it.each<[string, Record<string, string>, object | undefined, Partial<RoutingHints>]>([
  [
    'x-dynamo-worker-instance-id',
    { 'x-dynamo-worker-instance-id': '7' },
    none,
    { backendWorkerId: worker, decodeWorkerId: worker },
  ],
  ['x-worker-instance-id', { 'x-worker-instance-id': '7' }, none, { backendWorkerId: worker, decodeWorkerId: worker }],
  [
    'a pin over both fields',
    { 'x-worker-instance-id': '7' },
    { backend_instance_id: 1, decode_worker_id: 2 },
    { backendWorkerId: worker, decodeWorkerId: worker },
  ],
  [
    'the fields',
    {},
    { backend_instance_id: 1, decode_worker_id: 2, prefill_worker_id: 3 },
    { backendWorkerId: 1n, decodeWorkerId: 2n, prefillWorkerId: 3n },
  ],
  [
    'x-dynamo-prefill-instance-id',
    { 'x-dynamo-prefill-instance-id': '7' },
    { prefill_worker_id: 3 },
    { prefillWorkerId: worker, decodeWorkerId: none },
  ],
  ['x-prefill-instance-id', { 'x-prefill-instance-id': '7' }, none, { prefillWorkerId: worker }],
  [
    'an id beyond 64 bits',
    { 'x-worker-instance-id': '18446744073709551616' },
    { backend_instance_id: 1 },
    { backendWorkerId: 1n },
  ],
  ['x-dynamo-dp-rank', { 'x-dynamo-dp-rank': '2' }, { dp_rank: 1 }, { dpRank: 2, prefillDpRank: none }],
  ['x-dp-rank', { 'x-dp-rank': '2' }, none, { dpRank: 2 }],
  ['x-data-parallel-rank', { 'x-data-parallel-rank': '2' }, none, { dpRank: 2 }],
  [
    'a rank that means none',
    {},
    { dp_rank: 4_294_967_295, prefill_dp_rank: 4_294_967_295 },
    { dpRank: none, prefillDpRank: none },
  ],
  [
    'x-dynamo-prefill-dp-rank',
    { 'x-dynamo-prefill-dp-rank': '2' },
    { prefill_dp_rank: 1 },
    { prefillDpRank: 2, dpRank: none },
  ],
  ['x-prefill-dp-rank', { 'x-prefill-dp-rank': '2' }, none, { prefillDpRank: 2 }],
  [
    'priorities of a header',
    { 'x-dynamo-request-priority': '-4', 'x-dynamo-request-strict-priority': '3' },
    { agent_hints: { priority: 1, strict_priority: 1 } },
    { priority: -4, strictPriority: 3 },
  ],
  [
    'priorities of the body',
    {},
    { agent_hints: { priority: 1, strict_priority: 2, osl: 64 } },
    { priority: 1, strictPriority: 2, expectedOutputTokens: 64 },
  ],
  [
    'priorities that cannot be read',
    { 'x-dynamo-request-priority': '2147483648', 'x-dynamo-request-strict-priority': '-1' },
    none,
    { priority: none, strictPriority: none },
  ],
  [
    'latency_sensitivity',
    {},
    { agent_hints: { latency_sensitivity: 2.5 } },
    { latencySensitivity: 2.5, priority: none },
  ],
  ['a negative one', {}, { agent_hints: { latency_sensitivity: -1 } }, { latencySensitivity: 0 }],
  [
    'taints',
    {},
    { routing_constraints: { required_taints: ['a'], preferred_taints: { b: 2, c: -0.5 } } },
    { requiredTaints: ['a'], preferredTaints: { b: 2, c: -0.5 } },
  ],
  ['a class', { 'x-dynamo-meta-policy-class': ' urgent ' }, none, { policyClass: 'urgent' }],
  ['a dry run', {}, { annotations: ['other', 'query_instance_id:x'] }, { isDryRun: true }],
  ['another annotation', {}, { annotations: ['query_instance_id'] }, { isDryRun: false }],
  ['extra fields', {}, { extra_fields: ['worker_id'] }, { extraFields: new Set(['worker_id']) }],
  ['tokens', {}, { token_data: [1, 4_294_967_295] }, { tokenData: Uint32Array.of(1, 4_294_967_295) }],
  [
    'a session',
    {},
    { session_control: { session_id: 's', action: 'open', timeout: 5 } },
    { sessionControl: { sessionId: 's', action: 'open', timeoutSecs: 5 } },
  ],
])('reads %s', (_says, headers, nvext, expected) => {
  expect(hintsOf(headers, nvext)).toMatchObject(expected)
})

it.each([
  ['the header first', { 'x-tenant-id': 'h' }, { cache_salt: 'n' }, { cache_salt: 'b' }, 'h', true],
  ['then nvext', { 'x-tenant-id': ' ' }, { cache_salt: 'n' }, { cache_salt: 'b' }, 'n', true],
  ['then the body, which has it already', {}, { cache_salt: '' }, { cache_salt: 'b' }, 'b', false],
  ['the header, where the body says the same', { 'x-tenant-id': 'b' }, {}, { cache_salt: 'b' }, 'b', false],
  ['nobody', { 'x-tenant-id': '' }, { cache_salt: '' }, { cache_salt: '' }, undefined, false],
])('takes the salt from %s', (_says, headers, nvext, body, cacheSalt, isSaltOurs) => {
  expect(hintsOf(headers, nvext, body)).toMatchObject({ cacheSalt, isSaltOurs })
})

it.each([
  { prefill_worker_id: -1 },
  { decode_worker_id: 1.5 },
  { backend_instance_id: '7' },
  { dp_rank: -1 },
  { agent_hints: { priority: 2_147_483_648 } },
  { agent_hints: { strict_priority: -1 } },
  { agent_hints: { latency_sensitivity: '1' } },
  { agent_hints: { osl: 'x' } },
  { routing_constraints: { required_taints: 'a' } },
  { routing_constraints: { preferred_taints: { a: 'x' } } },
  { annotations: 'query_instance_id:' },
  { extra_fields: [1] },
  { token_data: [1.5] },
  { session_control: { session_id: 's', timeout: 0 } },
])('refuses a field that cannot be read: %j', (nvext) => {
  expect(() => hintsOf({}, nvext)).toThrow(expect.objectContaining({ code: 'WR_INVALID_BODY' }))
})

it.each([
  ['as many as may be', { 'x-dynamo-meta-a': '', 'x-dynamo-meta-b': '', 'x-other': 'x'.repeat(99) }, true],
  ['one too many', { 'x-dynamo-meta-a': '', 'x-dynamo-meta-b': '', 'x-dynamo-meta-c': '' }, false],
  ['as long as may be, names included', { 'x-dynamo-meta-a': 'x'.repeat(25) }, true],
  ['a byte too long', { 'x-dynamo-meta-a': 'x'.repeat(26) }, false],
  ['a byte too long together', { 'x-dynamo-meta-a': 'x'.repeat(5), 'x-dynamo-meta-b': 'x'.repeat(6) }, false],
])('metadata is bounded in number and in bytes: %s', (_says, headers, isTaken) => {
  const limits = { ...defaultLimits, metadataEntriesMax: 2, metadataBytesMax: 40 }
  const read = (): RoutingHints => readHints(headers, {}, undefined, limits)
  if (isTaken) expect(read().session).toBeUndefined()
  else expect(read).toThrow(expect.objectContaining({ code: 'WR_HEADERS_TOO_LARGE' }) as Error)
})

it('fields that are not read change nothing, and the page names every field', () => {
  const unread = {
    use_raw_prompt: true,
    greed_sampling: true,
    max_thinking_tokens: 9,
    request_timestamp_ms: 1.5,
    router: { ttft_target: 1, itl_target: 2 },
    metadata_upload: { url: 'http://x' },
    agent_hints: { speculative_prefill: true },
    extra_fields: ['stop_reason'],
  }
  const { extraFields, ...hints } = hintsOf({}, unread)
  const { extraFields: _, ...plain } = hintsOf({}, {})
  expect(hints).toEqual(plain)
  expect([...extraFields]).toEqual(['stop_reason']) // asked for, and nobody answers it
  const page = readFileSync(new URL('../../../docs/reference/headers.md', import.meta.url), 'utf8')
  expect([...nvextFields].filter((name) => !page.includes(`\`${name}\``))).toEqual([])
})
