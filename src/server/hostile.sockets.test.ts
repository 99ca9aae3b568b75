import { connect } from 'node:net'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { ModelStatus } from '../tokens/index.js'
import { TokenService } from '../tokens/index.js'
import type { House } from './house.case.js'
import { openHouse, post } from './house.case.js'
import { endpointRows } from './request/endpoints.js'

// One gateway for all of it: whatever is sent, it must answer, forward nothing it should not, and live on.
let house: House
const service = new TokenService({ threads: 1 })

beforeAll(async () => {
  const tokenizers = {
    status: (model: string): ModelStatus => service.status(model),
    replace: () => Promise.reject(new Error('a hostile request came as far as replacing a tokenizer')),
  }
  // Of an engine that nobody knows, no route is left out.
  house = await openHouse({
    engines: 1,
    engine: 'unknown',
    gateway: { tokenizers, limits: { bodyBytesMax: 1024 * 1024 } },
  })
})

afterAll(async () => {
  expect((await fetch(`${house.url}/health`)).status).toBe(200)
  await house.close()
  await service.close()
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
    expect((await post(house.url, '/v1/chat/completions', body, { 'content-encoding': 'gzip' })).status).toBe(415)
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

describe.each(['/busy_threshold', '/workers', '/router', '/models/m/tokenizer'])('%s', (path) => {
  it.each(bodies.filter(([says, , status]) => status !== 404 && !(says === 'nothing' && path.endsWith('/tokenizer'))))(
    'refuses %s',
    async (_says, body) => {
      const response = await post(house.url, path, body, { 'x-request-id': 'a' })
      expect([400, 413, 422]).toContain(response.status)
      const text = await response.text()
      expect(JSON.parse(text)).toHaveProperty('error')
      expect(text).not.toContain('yyyy')
    },
  )

  it.each([
    ['fields of the wrong kind', '{"model":{},"url":[],"method":[]}'],
    ['prototype keys', '{"__proto__":{"model":"m","method":"new","url":"http://x","polluted":1}}'],
    ['huge numbers', '{"model":"m","method":"new","tokens":[1e400],"active_decode_blocks_threshold":1e400,"id":1e400}'],
    ['a token that is none', '{"model":"m","method":"new","tokens":[-1],"active_prefill_tokens_threshold":-1}'],
  ])('refuses %s', async (_says, body) => {
    const response = await post(house.url, path, body, { 'x-request-id': 'a' })
    expect([400, 422]).toContain(response.status)
    expect(JSON.parse(await response.text())).toHaveProperty('error')
    expect(({} as { polluted?: unknown }).polluted).toBeUndefined()
  })
})

it.each([
  ['a key that would be another header', { api_key: 'a\r\nx-evil: 1' }],
  ['an address that is no web address', { url: 'file:///etc/passwd' }],
  ['an address that would be a header', { url: 'http://x\r\nx-evil: 1/' }],
  ['an id beyond 64 bits', { id: '18446744073709551616' }],
  ['an id below zero', { id: -1 }],
  ['a kind of engine that is none', { engine: '__proto__' }],
])('no worker joins with %s', async (_says, fields) => {
  const worker = { model: 'm', url: 'http://127.0.0.1:1', ...fields }
  const before = house.gateway.workers().length
  const response = await post(house.url, '/workers', JSON.stringify(worker))
  const text = await response.text()
  if (response.status === 201) {
    // An address is normalised by the URL's own rules; what is left of it can be no header.
    const { id, url } = (JSON.parse(text) as { worker: { id: string; url: string } }).worker
    expect(url).not.toMatch(/[\r\n ]/)
    house.gateway.removeWorker(BigInt(id))
  } else expect(response.status).toBe(400)
  expect(house.gateway.workers().length).toBe(before)
})

describe('every other route', () => {
  const line = (method: string, path: string, more = ''): string =>
    `${method} ${path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n${more}\r\n`

  it.each([
    ['a model that is a prototype', line('GET', '/v1/models/__proto__'), 404],
    ['a model with broken escapes', line('GET', '/v1/models/%ff%'), 404],
    ['a model that is a path', line('GET', '/v1/models/../../etc/passwd'), 404],
    ['a model with a line break', line('GET', '/v1/models/a%0d%0ax-evil:%201'), 404],
    ['a model without end', line('GET', `/v1/models/${'a'.repeat(30_000)}`), 404],
    ['a route without end', line('GET', `/${'a'.repeat(30_000)}`), 404],
    ['a route in other letters', line('GET', '/HEALTH'), 404],
    ['a route with an address', line('GET', 'http://evil/health'), 200],
    ['an address within an address', line('GET', 'http://evil/http://evil/health'), 404],
    ['an address of another kind', line('GET', 'ftp://evil/health'), 404],
    ['a star', line('OPTIONS', '*'), 404],
    ['a tokenizer of nobody', line('GET', '/models/__proto__/tokenizer'), 404],
    ['a tokenizer of broken escapes', line('GET', '/models/%ff%/tokenizer'), 404],
    ['something else of a model', line('GET', '/models/m/weights'), 404],
    ['a response that is a prototype', line('GET', '/v1/responses/__proto__'), 200],
    ['a response with broken escapes', line('GET', '/v1/responses/%ff%'), 404],
    ['a response that is a path', line('DELETE', '/v1/responses/..'), 404],
    ['a response without end', line('GET', `/v1/responses/${'a'.repeat(30_000)}`), 404],
    ['a response with a query that is noise', line('GET', '/v1/responses/a?%00=%ff&&&=%0d%0ax-evil:1'), 200],
    ['a cancelled response with a line break', line('POST', '/v1/responses/a%0d%0ax-evil:%201/cancel'), 404],
    ['a body of a response', `${line('GET', '/v1/responses/a', 'content-length: 5\r\n')}hello`, 200],
    ['a worker that is no number', line('DELETE', '/workers/__proto__'), 400],
    ['a worker beyond 64 bits', line('DELETE', '/workers/99999999999999999999999'), 400],
    ['a drain of nobody', line('POST', '/workers/77/drain', 'content-length: 0\r\n'), 404],
    ['another action', line('POST', '/workers/1/explode', 'content-length: 0\r\n'), 404],
    ['a method that nobody knows', line('PATCH', '/health'), 405],
    ['a body where none is read', `${line('GET', '/live', 'content-length: 5\r\n')}hello`, 200],
    ['a query that is noise', line('GET', '/metrics?%00=%ff&&&=__proto__'), 200],
    ['a query that is noise, of the page of routes', line('GET', '/openapi.json?%00=%ff&&&=__proto__'), 200],
    ['another method of the page of routes', line('DELETE', '/openapi.json'), 405],
    ['a request id with odd bytes', line('GET', '/live', 'x-request-id: \xff\xfe\r\n'), 200],
    ['an upgrade', line('GET', '/live', 'upgrade: websocket\r\nconnection: upgrade\r\n'), 200],
  ])('%s', async (_says, bytes, status) => {
    const answer = await raw(Buffer.from(bytes, 'latin1'))
    expect(answer).toMatch(new RegExp(`^HTTP/1\\.1 ${status} `))
    const [head, ...rest] = answer.split('\r\n\r\n')
    expect(head).not.toMatch(/x-evil|\xff/)
    if (status >= 400) expect(JSON.parse(rest.join('\r\n\r\n'))).toHaveProperty('error')
  })

  it('is named here: a route that is added must be attacked too', async () => {
    const { paths } = (await (await fetch(`${house.url}/openapi.json`)).json()) as { paths: Record<string, unknown> }
    const own =
      '/busy_threshold /workers /router /models/{id}/tokenizer /workers/{id} /workers/{id}/drain /v1/models /v1/models/{id} /v1/models/{id}/ready /v1/responses/{id} /v1/responses/{id}/cancel /health /live /ready /metrics /openapi.json'
    const attacked = [...endpointRows.map(({ path }) => path), ...own.split(' ')]
    expect(Object.keys(paths).sort()).toEqual(attacked.sort())
  })
})
