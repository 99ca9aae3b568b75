import { expect, it } from 'vitest'
import { requestControls } from './controls.js'

const chat = '/v1/chat/completions'

it('pins a vLLM rank by header, except on the route that ignores it', () => {
  expect(requestControls({ engine: 'vllm', path: chat, dpRank: 1 })).toMatchObject({
    headers: { 'x-data-parallel-rank': '1' },
    fields: {},
    isPinned: true,
  })
  expect(requestControls({ engine: 'vllm', path: '/v1/responses', dpRank: 1 })).toMatchObject({
    headers: {},
    isPinned: false,
  })
})

it('pins an SGLang rank by header where it reads one, and by field on /generate', () => {
  expect(requestControls({ engine: 'sglang', path: '/v1/messages', dpRank: 2 }).headers).toEqual({
    'x-data-parallel-rank': '2',
  })
  expect(requestControls({ engine: 'sglang', path: '/generate', dpRank: 2 })).toMatchObject({
    fields: { routed_dp_rank: 2 },
    isPinned: true,
  })
  expect(requestControls({ engine: 'sglang', path: '/v1/responses', dpRank: 2 }).isPinned).toBe(false)
})

it('turns our priority into the order of each engine', () => {
  expect(requestControls({ engine: 'vllm', path: chat, priority: 5 }).headers).toEqual({ 'x-vllm-priority': '-5' })
  expect(requestControls({ engine: 'sglang', path: chat, priority: 5 }).fields).toEqual({ priority: 5 })
})

it('names the request where the engine looks for it', () => {
  const named = { path: chat, requestId: 'r1', sessionId: 's1' }
  expect(requestControls({ engine: 'vllm', ...named }).headers).toEqual({ 'x-request-id': 'r1', 'x-session-id': 's1' })
  expect(requestControls({ engine: 'sglang', ...named }).fields).toEqual({ rid: 'r1' })
})

it('makes a request part of a session that SGLang has open, on the routes that read one, and of none elsewhere', () => {
  const open = { openSessionId: 's1' }
  for (const path of ['/generate', chat, '/v1/completions'])
    expect(requestControls({ engine: 'sglang', path, ...open }).fields).toEqual({ session_params: { id: 's1' } })
  expect(requestControls({ engine: 'sglang', path: '/v1/messages', ...open }).fields).toEqual({})
  expect(requestControls({ engine: 'vllm', path: chat, ...open }).fields).toEqual({})
  expect(requestControls({ engine: 'sglang', path: chat }).strip).toContain('session_params')
})

it('takes out the other name of a session only where SGLang refuses both at once', () => {
  const strippedOf = (path: string, openSessionId?: string) =>
    requestControls({ engine: 'sglang', path, openSessionId }).strip.includes('session_id')
  expect(strippedOf('/generate', 's1')).toBe(true)
  expect(strippedOf('/generate')).toBe(false)
  expect(strippedOf(chat, 's1')).toBe(false)
})

it('adds nothing for an engine that refuses unknown fields', () => {
  expect(requestControls({ engine: 'trtllm', path: chat, dpRank: 1, priority: 1, requestId: 'r' })).toMatchObject({
    headers: {},
    fields: {},
    isPinned: false,
  })
})

it('takes from clients what can end an engine or undo the choice', () => {
  expect(requestControls({ engine: 'vllm', path: chat }).strip).toContain('kv_transfer_params')
  expect(requestControls({ engine: 'sglang', path: chat }).strip).toContain('bootstrap_room')
})
