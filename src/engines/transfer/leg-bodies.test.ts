import { describe, expect, it } from 'vitest'
import type { RecordedExchange } from '../../../test/recordings.js'
import { readRecording } from '../../../test/recordings.js'
import type { AppointmentInput, LegEdit } from './leg-bodies.js'
import {
  appointment,
  promptCount,
  releasingDecode,
  sequentialDecode,
  sequentialPrefill,
  unpairable,
} from './leg-bodies.js'
import { readTransferParams } from './read-params.js'

type Body = Record<string, unknown>

/** A body with an edit applied, as the gateway applies it. */
function edited(body: Body, { set, remove }: LegEdit): Body {
  const kept = Object.entries(body).filter(([name]) => !remove.includes(name) && !(name in set))
  const added = Object.entries(set).map(([name, text]) => [name, JSON.parse(text) as unknown])
  return Object.fromEntries([...kept, ...added]) as Body
}

const recorded = readRecording('vllm/pd-nixl').filter((line): line is RecordedExchange => line.kind === 'http')
/** Steps whose two legs are one request, in time. */
const pairs = ['01-completions', '03-chat-D-streams', '05-shorter-than-block', '17a-in-time'].map((step) => {
  const [prefill, decode] = ['P', 'D'].map((side) => recorded.find((it) => it.step === step && it.side === side)!)
  return { step, prefill: prefill!, decode: decode! }
})

describe('vLLM with NIXL, against the recorded pairs', () => {
  it.each(pairs)('asks for a prefill as $step did', ({ prefill, decode }) => {
    const { kv_transfer_params: _params, ...client } = decode.request.body as Body
    const sent = edited(client, sequentialPrefill('nixl', client))
    const { stream: _stream, ...asked } = prefill.request.body as Body
    expect(sent).toMatchObject(asked) // some steps left out the fields that are null
    expect(Object.keys(sent).toSorted()).toEqual([...Object.keys(asked), 'stream'].toSorted())
    expect(sent['stream']).toBe(false)
  })

  it.each(pairs)('hands the parameters on as $step did', ({ prefill, decode }) => {
    const { kv_transfer_params: params, ...client } = decode.request.body as Body
    const reply = JSON.parse(prefill.response_text!) as Body
    const text = readTransferParams(JSON.stringify(reply['kv_transfer_params']), '127.0.0.1')
    expect(edited(client, sequentialDecode(text))).toEqual({ ...client, kv_transfer_params: params })
  })
})

describe('the other fields of a prefill', () => {
  const client = { max_completion_tokens: 9, min_tokens: 3, stream: true, stream_options: {}, seed: 1 }

  it('one token, no stream, nothing that contradicts it', () => {
    expect(edited(client, sequentialPrefill('shared_cache', client))).toEqual({
      max_completion_tokens: 1,
      max_tokens: 1,
      stream: false,
      seed: 1,
    })
  })

  it('a releasing decode reads and throws away', () => {
    expect(edited(client, releasingDecode(client, '{"a":1}'))).toMatchObject({
      max_tokens: 1,
      stream: false,
      kv_transfer_params: { a: 1 },
    })
  })

  it('a shared cache needs no parameters on either leg', () => {
    expect(sequentialPrefill('shared_cache', {}).set).not.toHaveProperty('kv_transfer_params')
    expect(sequentialDecode(undefined)).toEqual({ set: {}, remove: [] })
  })
})

/** From the documentation of the engines; not run against the real thing. */
describe('legs that go together', () => {
  const input: AppointmentInput = {
    connector: 'sglang',
    body: { max_tokens: 7 },
    host: '10.0.0.5',
    facts: { port: 8998, engineIds: ['e-0', 'e-1'], tpSize: 2 },
    dpRank: 1,
    transferId: 'r1',
    rooms: [83n],
  }
  const legs = (change: Partial<AppointmentInput>) => {
    const { prefill, decode } = appointment({ ...input, ...change })
    return { prefill: edited(input.body, prefill), decode: edited(input.body, decode) }
  }

  it('SGLang: the same three fields, and the client’s own limit', () => {
    const fields = { max_tokens: 7, bootstrap_host: '10.0.0.5', bootstrap_port: 8998, bootstrap_room: 83 }
    expect(legs({})).toEqual({ prefill: fields, decode: fields })
    expect(legs({ facts: undefined }).decode['bootstrap_port']).toBeNull()
    expect(legs({ rooms: [83n, 91n] }).prefill['bootstrap_room']).toEqual([83, 91])
  })

  it('NIXL push: the decode says where the prefill is, and no blocks', () => {
    expect(legs({ connector: 'nixl_push', facts: { ...input.facts, port: 5600 } })).toEqual({
      prefill: {
        max_tokens: 1,
        stream: false,
        kv_transfer_params: {
          do_remote_decode: true,
          do_remote_prefill: false,
          remote_engine_id: null,
          remote_block_ids: null,
          remote_host: null,
          remote_port: null,
          transfer_id: 'xfer-r1',
        },
      },
      decode: {
        max_tokens: 7,
        kv_transfer_params: {
          do_remote_decode: false,
          do_remote_prefill: true,
          remote_engine_id: 'e-1',
          remote_host: '10.0.0.5',
          remote_port: 5601,
          tp_size: 2,
          pp_size: 1,
          remote_request_id: 'r1',
          transfer_id: 'xfer-r1',
        },
      },
    })
    const { prefill, decode } = appointment({ ...input, connector: 'nixl_push' })
    expect([prefill.requestId, decode.requestId]).toEqual(['r1', 'r1']) // older versions match by it
  })

  it('Mooncake: one transfer id for both, and the bootstrap server for the decode', () => {
    expect(legs({ connector: 'mooncake', host: '::1' })).toEqual({
      prefill: {
        max_tokens: 1,
        stream: false,
        kv_transfer_params: { do_remote_decode: true, do_remote_prefill: false, transfer_id: 'xfer-r1' },
      },
      decode: {
        max_tokens: 7,
        kv_transfer_params: {
          do_remote_decode: false,
          do_remote_prefill: true,
          remote_bootstrap_addr: 'http://[::1]:8998',
          remote_engine_id: 'e-1',
          transfer_id: 'xfer-r1',
        },
      },
    })
  })
})

it.each([
  ['one prompt', 'nixl', { prompt: 'a' }, undefined],
  ['one prompt of tokens', 'nixl', { prompt: [1, 2] }, undefined],
  ['two prompts', 'nixl', { prompt: ['a', 'b'] }, 'sequences'],
  ['two prompts of tokens', 'nixl', { prompt: [[1], [2]] }, 'sequences'],
  ['several answers', 'nixl', { n: 2 }, 'sequences'],
  ['the best of several', 'mooncake', { best_of: 3 }, 'sequences'],
  ['log probabilities of the prompt', 'nixl', { prompt_logprobs: 0 }, 'prompt_logprobs'],
  ['an echo with log probabilities', 'nixl', { echo: true, logprobs: 1 }, 'prompt_logprobs'],
  ['two prompts of SGLang, each with its room', 'sglang', { prompt: ['a', 'b'] }, undefined],
  ['several answers of SGLang, which share one', 'sglang', { n: 2 }, 'sequences'],
  ['the same by its own name', 'sglang', { text: 'a', sampling_params: { n: 2 } }, 'sequences'],
  ['the same for one of several prompts', 'sglang', { text: ['a', 'b'], sampling_params: [{}, { n: 3 }] }, 'sequences'],
] as const)('%s', (_says, connector, body, reason) => {
  expect(unpairable(connector, body)).toBe(reason)
})

it.each([
  [{ messages: [] }, 1],
  [{ prompt: 'a' }, 1],
  [{ prompt: [1, 2, 3] }, 1],
  [{ prompt: ['a', 'b', 'c'] }, 3],
  [{ text: ['a', 'b'] }, 2],
  [{ input_ids: [[1], [2], [3], [4]] }, 4],
  [{ input_ids: [1, 2] }, 1],
])('prompts in %j: %d', (body, count) => expect(promptCount(body)).toBe(count))
