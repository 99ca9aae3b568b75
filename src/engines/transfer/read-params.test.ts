import fc from 'fast-check'
import { expect, it } from 'vitest'
import { WarmrouteError } from '../../core/protocol/index.js'
import { readTransferParams } from './read-params.js'

const good = {
  do_remote_prefill: true,
  do_remote_decode: false,
  remote_block_ids: [[1, 2, 3]],
  remote_engine_id: '8ab04105',
  remote_request_id: 'cmpl-1',
  remote_host: '10.0.0.7',
  remote_port: 5701,
  tp_size: 1,
  remote_num_tokens: 150,
  remote_blocks_expiry_time: null,
  transfer_mode: 'pull',
}

const read = (params: unknown, peerHost = 'gpu1'): string | undefined =>
  readTransferParams(JSON.stringify(params), peerHost)

it('gives back what it was given, to the letter', () => {
  const text = JSON.stringify(good, null, 1).replace('5701', '5701 ')
  expect(readTransferParams(text, 'gpu1')).toBe(text)
})

it('knows the flat block list of old versions, fields of newer ones, and empty cache groups', () => {
  for (const change of [{ remote_block_ids: [1, 2] }, { remote_block_ids: [[], [4]] }, { something_new: [1.5, 'x'] }])
    expect(read({ ...good, ...change })).toBe(JSON.stringify({ ...good, ...change }))
})

it('nothing held is no error', () => {
  expect([readTransferParams(undefined, 'gpu1'), readTransferParams('null', 'gpu1')]).toEqual([undefined, undefined])
})

it('replaces a host that means only the prefill worker itself, unless it is on this machine too', () => {
  expect(JSON.parse(read({ ...good, remote_host: 'localhost' })!)).toEqual({ ...good, remote_host: 'gpu1' })
  expect(JSON.parse(read({ ...good, remote_host: '0.0.0.0' })!)).toEqual({ ...good, remote_host: 'gpu1' })
  expect(JSON.parse(read({ ...good, remote_host: '127.0.0.1' }, '127.0.0.1')!)).toMatchObject({
    remote_host: '127.0.0.1',
  })
})

it.each<[string, object]>([
  ['no block ids', { remote_block_ids: undefined }],
  ['empty block ids', { remote_block_ids: [] }],
  ['empty groups only', { remote_block_ids: [[], []] }],
  ['a block id that is no number', { remote_block_ids: [['1']] }],
  ['a negative block id', { remote_block_ids: [-1] }],
  ['a mixed list', { remote_block_ids: [[1], 2] }],
  ['a prefill that asks for a decode', { do_remote_decode: true }],
  ['no remote prefill', { do_remote_prefill: false }],
  ['no engine', { remote_engine_id: '' }],
  ['no host', { remote_host: null }],
  ['a port out of range', { remote_port: 70_000 }],
  ['a port as text', { remote_port: '5701' }],
  ['no tensor ranks', { tp_size: 0 }],
  ['a request id that is no text', { remote_request_id: 7 }],
  ['another direction', { transfer_mode: 'push' }],
])('refuses %s', (_says, change) => {
  expect(() => read({ ...good, ...change })).toThrow(WarmrouteError)
})

it('whatever a worker sends is passed on whole or refused', () => {
  fc.assert(
    fc.property(fc.oneof(fc.json(), fc.string()), (text) => {
      try {
        const passed = readTransferParams(text, 'gpu1')
        expect(passed === undefined || Array.isArray((JSON.parse(passed) as typeof good).remote_block_ids)).toBe(true)
      } catch (error) {
        expect(error).toMatchObject({ code: 'WR_ENGINE_PROTOCOL' })
      }
    }),
  )
})
