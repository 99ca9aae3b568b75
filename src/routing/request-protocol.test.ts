import { expect, it } from 'vitest'
import { parseRouterRequest, requestIdOr, stringifyRouterResponse } from './request-protocol.js'

it('reads the three requests', () => {
  expect(parseRouterRequest('{"method":"new","tokens":[1,4294967295]}')).toMatchObject({
    method: 'new',
    tokens: Uint32Array.of(1, 4294967295),
  })
  expect(parseRouterRequest('{"method":"mark_prefill"}')).toEqual({ method: 'mark_prefill' })
  expect(parseRouterRequest('{"method":"mark_free","request_id":"a"}')).toEqual({ method: 'mark_free', requestId: 'a' })
})

it('reads media, priorities and constraints where present', () => {
  const text =
    '{"method":"new","tokens":[1],"block_mm_infos":[null,{"mm_objects":[{"mm_hash":18446744073709551615,"offsets":[[0,4]]}]}],' +
    '"priority_jump":1.5,"strict_priority":2,"lora_name":"l","cache_namespace":"n","routing_constraints":{"required_taints":["a"],"preferred_taints":{"b":-0.5}}}'
  expect(parseRouterRequest(text)).toEqual({
    method: 'new',
    tokens: Uint32Array.of(1),
    blockMmInfos: [null, { mmObjects: [{ mmHash: 2n ** 64n - 1n, offsets: [[0, 4]] }] }],
    priorityJump: 1.5,
    strictPriority: 2,
    loraName: 'l',
    cacheNamespace: 'n',
    requiredTaints: ['a'],
    preferredTaints: { b: -0.5 },
  })
})

it.each([
  '[]',
  '{}',
  '{"method":"old"}',
  '{"method":"new"}',
  '{"method":"new","tokens":[-1]}',
  '{"method":"new","tokens":[1.5]}',
  '{"method":"new","tokens":[4294967296]}',
  '{"method":"new","tokens":[1],"block_mm_infos":[{"mm_objects":7}]}',
  '{"method":"new","tokens":[1],"priority_jump":"x"}',
  '{"method":"new","tokens":[1],"routing_constraints":{"required_taints":[1]}}',
  '{"method":"mark_free","request_id":7}',
])('refuses %s', (text) => {
  expect(() => parseRouterRequest(text)).toThrow(expect.objectContaining({ code: 'WR_INVALID_ARGUMENT' }))
})

it('writes 64-bit worker ids as they are', () => {
  const worker = { workerId: 2n ** 64n - 1n, dpRank: 3 }
  expect(stringifyRouterResponse({ method: 'new', worker, overlapBlocks: 7 })).toBe(
    '{"method":"new","worker_id":18446744073709551615,"dp_rank":3,"overlap_blocks":7}',
  )
  expect(stringifyRouterResponse({ method: 'free_marked', success: true })).toBe(
    '{"method":"free_marked","success":true}',
  )
  const rejection = { policyClass: 'c', limitKind: 'requests', current: 2, limit: 2 } as const
  expect(stringifyRouterResponse({ method: 'queue_rejected', rejection })).toBe(
    '{"method":"queue_rejected","rejection":{"policy_class":"c","limit_kind":"requests","current":2,"limit":2}}',
  )
})

it('a blank request id means the context', () => {
  expect([undefined, '', '  \t', 'x'].map((id) => requestIdOr('context', id))).toEqual([
    'context',
    'context',
    'context',
    'x',
  ])
})
