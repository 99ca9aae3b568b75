import { connect } from 'node:net'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { House } from './house.case.js'
import { openHouse, post } from './house.case.js'
import { endpointRows } from './request/endpoints.js'

// One gateway for all of it: whatever is sent, it must answer, forward nothing it should not, and live on.
let house: House

beforeAll(async () => {
  house = await openHouse({ engines: 1, gateway: { limits: { bodyBytesMax: 1024 * 1024 } } })
})

afterAll(async () => {
  expect((await fetch(`${house.url}/health`)).status).toBe(200)
  await house.close()
})

const deep = (depth: number): string => `{"model":"m","messages":${'['.repeat(depth)}${']'.repeat(depth)}}`

const bodies: readonly (readonly [says: string, body: string | Uint8Array, status: number])[] = [
  ['nothing', '', 400],
  ['no JSON', '{"model":"m"', 400],
  ['JSON and more', '{"model":"m"}}', 400],
  ['a list', '[1,2]', 400],
  ['a text', '"m"', 400],
  ['null', 'null', 400],
  ['invalid UTF-8', Buffer.from([...Buffer.from('{"model":"m","x":"'), 0xff, 0xfe, ...Buffer.from('"}')]), 400],
  ['an overlong sequence', Buffer.from([...Buffer.from('{"model":"m","x":"'), 0xc0, 0x80, ...Buffer.from('"}')]), 400],
  [
    'a lone surrogate in UTF-8',
    Buffer.from([...Buffer.from('{"model":"m","x":"'), 0xed, 0xa0, 0x80, ...Buffer.from('"}')]),
    400,
  ],
  ['deep nesting', deep(100_000), 400],
  ['nesting just too deep', deep(200), 400],
  ['a model that is a number', '{"model":1e999}', 400],
  ['a model that is an object', '{"model":{"toString":"x"}}', 400],
  ['an unknown model with control characters', '{"model":"a\\u0000\\r\\nb"}', 404],
  ['a body over the limit', `{"model":"m","x":"${'y'.repeat(1024 * 1024)}"}`, 413],
  ['single quotes', "{'model':'m'}", 400],
  ['NaN', '{"model":"m","x":NaN}', 400],
  ['a raw control character in a string', '{"model":"m","x":"a\nb"}', 400],
]

describe.each(endpointRows.map((row) => row.path))('%s', (path) => {
  it.each(bodies)('refuses %s', async (_says, body, status) => {
    const before = house.engines[0]!.seen.length
    const response = await post(house.url, path, body)
    expect(response.status).toBe(status)
    const text = await response.text()
    expect(() => JSON.parse(text) as unknown).not.toThrow()
    expect(text).not.toContain('yyyy') // an error never repeats what was sent
    expect(house.engines[0]!.seen.length).toBe(before)
  })

  it.each([
    ['huge numbers', '{"model":"m","messages":[],"n":1e400,"seed":123456789012345678901234567890}'],
    ['duplicate keys', '{"model":"m","messages":[],"priority":1,"priority":2,"a":1,"a":2}'],
    [
      'prototype keys',
      '{"model":"m","messages":[],"__proto__":{"polluted":1},"constructor":{"prototype":{"polluted":1}}}',
    ],
    ['odd but legal text', '{"model":"m","messages":[{"role":"user","content":"\\ud800 \\u0000 \\"}]"}]}'],
  ])('forwards %s without being changed by them', async (_says, body) => {
    const response = await post(house.url, path, body)
    expect(response.status).toBe(200)
    await response.text()
    expect(({} as { polluted?: unknown }).polluted).toBeUndefined()
    const seen = house.engines[0]!.seen.at(-1)!
    expect(seen.text).toBe(body.replaceAll('"priority":1,"priority":2,', ''))
  })
})

/** Sends bytes as they are and reads until the connection closes. */
function raw(bytes: string | Uint8Array): Promise<string> {
  return new Promise((resolve) => {
    const socket = connect(Number(new URL(house.url).port), '127.0.0.1')
    let text = ''
    socket.on('data', (part) => (text += part.toString('latin1')))
    socket.on('close', () => resolve(text))
    socket.on('error', () => {})
    socket.write(bytes)
    socket.setTimeout(3_000, () => socket.destroy())
  })
}

describe('headers', () => {
  const head =
    'POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-type: application/json\r\n'
  const body = '{"model":"m","messages":[]}'

  it('that are too large are refused', async () => {
    expect(await raw(`GET /live HTTP/1.1\r\nhost: x\r\nx-big: ${'a'.repeat(100_000)}\r\n\r\n`)).toMatch('HTTP/1.1 431')
  })

  it('with line breaks cannot reach the engine', async () => {
    const before = house.engines[0]!.seen.length
    expect(await raw(`${head}x-request-id: a\rx-evil: 1\r\ncontent-length: ${body.length}\r\n\r\n${body}`)).toMatch(
      'HTTP/1.1 400',
    )
    expect(house.engines[0]!.seen.length).toBe(before)
  })

  it('with two framings are refused', async () => {
    const before = house.engines[0]!.seen.length
    expect(await raw(`${head}content-length: ${body.length}\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n`)).toMatch(
      'HTTP/1.1 400',
    )
    expect(house.engines[0]!.seen.length).toBe(before)
  })

  it('with a strange request id get one of ours', async () => {
    const answer = await raw(`${head}x-request-id: ${'é'.repeat(400)}\r\ncontent-length: ${body.length}\r\n\r\n${body}`)
    expect(answer).toMatch('HTTP/1.1 200')
    expect(answer).toMatch(/x-request-id: [0-9a-z]+-[0-9a-z]+\r\n/)
  })

  it('of too much metadata are refused', async () => {
    const headers = Object.fromEntries(Array.from({ length: 65 }, (_, at) => [`x-dynamo-meta-${at}`, 'x']))
    expect((await post(house.url, '/v1/chat/completions', body, headers)).status).toBe(431)
  })

  it('with pins that cannot be read are ignored', async () => {
    const headers = {
      'x-dynamo-worker-instance-id': 'abc',
      'x-dynamo-dp-rank': '-1',
      'x-dynamo-request-priority': '1e9',
    }
    expect((await post(house.url, '/v1/chat/completions', body, headers)).status).toBe(200)
  })

  it('of another media type are refused', async () => {
    expect((await post(house.url, '/v1/chat/completions', body, { 'content-type': 'text/plain' })).status).toBe(415)
    expect(
      (await post(house.url, '/v1/chat/completions', body, { 'content-type': 'application/vnd.x+json; charset=utf-8' }))
        .status,
    ).toBe(200)
  })
})

it('lets the client see why its endless body was refused, then closes', async () => {
  const text = await raw(
    `POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ncontent-length: 900000000\r\n\r\n${'x'.repeat(200_000)}`,
  )
  expect(text).toMatch('HTTP/1.1 413')
  expect(text).toMatch('connection: close')
})

it.each(['/busy_threshold', '/workers', '/router'])('%s refuses every odd body', async (path) => {
  for (const body of [
    '',
    '{',
    '[]',
    'null',
    deep(100_000),
    '{"model":{},"url":[],"method":[]}',
    Buffer.from([0xff, 0xff]),
  ]) {
    const response = await post(house.url, path, body)
    expect([400, 404, 413, 422]).toContain(response.status)
    await response.text()
  }
})
