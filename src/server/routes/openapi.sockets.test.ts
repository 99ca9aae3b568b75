// The description of the routes against what they do.
import { describe, expect, it } from 'vitest'
import type { House } from '../house.case.js'
import { chatBody, houseOfEachTest, post } from '../house.case.js'
import { endpointRows } from '../request/endpoints.js'
import type { DoorOptions } from './door.js'
import { routesOf } from './door.js'
import { ownRoutes } from './openapi.js'
import type { ShapeName } from './shapes.js'
import { shapes } from './shapes.js'

const open = houseOfEachTest()

const status = {
  source: 'none',
  from: undefined,
  encoder: 'none',
  asks: undefined,
  reason: undefined,
  trouble: undefined,
  tried: [],
} as const
const tokenizers = { status: () => status, replace: () => Promise.resolve(status) }
const house = (): Promise<House> => open({ engines: 2, gateway: { tokenizers } })

/** One call of each route, in an order in which all of them succeed. */
const calls: Readonly<Record<string, { readonly path?: string; readonly body?: object }>> = {
  'get /v1/models': {},
  'get /v1/models/{id}': { path: '/v1/models/m' },
  'get /v1/models/{id}/ready': { path: '/v1/models/m/ready' },
  'get /health': {},
  'get /live': {},
  'get /ready': {},
  'get /metrics': {},
  'get /openapi.json': {},
  'get /busy_threshold': {},
  'post /busy_threshold': { body: { model: 'm', active_decode_blocks_threshold: 0.9 } },
  'get /workers': {},
  'post /workers': { body: { model: 'm', url: 'http://127.0.0.1:1', id: '9' } },
  'delete /workers/{id}': { path: '/workers/9' },
  'post /workers/{id}/drain': { path: '/workers/2/drain' },
  'get /models/{id}/tokenizer': { path: '/models/m/tokenizer' },
  'post /models/{id}/tokenizer': { path: '/models/m/tokenizer', body: {} },
  'post /router': { body: { method: 'new', tokens: [1, 2, 3] } },
}

async function described(url: string): Promise<{ paths: Record<string, Record<string, object>>; components: object }> {
  return (await (await fetch(`${url}/openapi.json`)).json()) as never
}

it('describes every route, and names no shape that it does not have', async () => {
  const { url } = await house()
  const page = await described(url)
  const names = [...JSON.stringify(page).matchAll(/"\$ref":"#\/components\/schemas\/(\w+)"/g)].map((match) => match[1]!)
  expect(new Set(names)).toEqual(new Set(Object.keys(shapes)))
  expect(Object.keys((page.components as { schemas: object }).schemas)).toEqual(Object.keys(shapes))
  expect(Object.keys(page.paths)).toEqual(
    expect.arrayContaining([...endpointRows, ...ownRoutes].map((route) => route.path)),
  )
})

it('describes every route of our own that the door has, and none that it has not', () => {
  const door = { serves: 'all', context: {}, options: { tokenizers }, admin: {} } as unknown as DoorOptions
  const served = routesOf(door).map(({ method, path, isPrefix }) => `${method} ${path}${isPrefix ? '{id}' : ''}`)
  // A prefix may have further words behind the id.
  const behindId = (path: string): string => path.replace(/\{id\}.+/, '{id}')
  const described = ownRoutes.map(({ method, path }) => `${method.toUpperCase()} ${behindId(path)}`)
  expect([...new Set(described)].sort()).toEqual([...new Set(served)].sort())
})

it('describes what may be asked of a response that is kept', async () => {
  const { url } = await house()
  const { paths } = await described(url)
  expect(Object.keys(paths['/v1/responses/{id}']!)).toEqual(['get', 'delete'])
  expect(Object.keys(paths['/v1/responses/{id}/cancel']!)).toEqual(['post'])
})

it('answers as it is described: every route of our own', async () => {
  const { url } = await house()
  const open: string[] = []
  for (const { method, path, answers, takes } of ownRoutes) {
    const call = calls[`${method} ${path}`]
    expect(call, `${method} ${path} is called here`).toBeDefined()
    if (takes) shapes[takes].parse(call!.body)
    const response = await fetch(url + (call!.path ?? path), {
      method: method.toUpperCase(),
      headers: { 'x-request-id': 'a' },
      ...(call!.body ? { body: JSON.stringify(call!.body) } : {}),
    })
    const text = await response.text()
    const answer = answers[response.status]
    expect(answer, `${method} ${path} answered ${response.status} ${text}`).toBeDefined()
    const shape = answer![1]
    if (shape) shapes[shape].parse(JSON.parse(text))
    else open.push(path)
  }
  expect(open).toEqual(['/metrics'])
  await (await post(url, '/router', '{"method":"mark_free"}', { 'x-request-id': 'a' })).text()
})

describe('other answers than the first', () => {
  const anthropic = { 'anthropic-version': '2023-06-01' }
  it.each<[string, string, string | undefined, Record<string, string>, number, ShapeName]>([
    ['an unknown model', '/v1/chat/completions', chatBody({ model: 'x' }), {}, 404, 'Error'],
    ["one of Anthropic's", '/v1/messages', chatBody({ model: 'x' }), {}, 404, 'AnthropicError'],
    ["Anthropic's list", '/v1/models', undefined, anthropic, 200, 'ModelList'],
    ["Anthropic's model", '/v1/models/m', undefined, anthropic, 200, 'Model'],
    [
      'a threshold out of range',
      '/busy_threshold',
      '{"model":"m","active_decode_blocks_threshold":2}',
      {},
      400,
      'ThresholdError',
    ],
    [
      'thresholds of no model',
      '/busy_threshold',
      '{"model":"x","active_decode_blocks_threshold":1}',
      {},
      404,
      'ThresholdError',
    ],
    ['thresholds that are none', '/busy_threshold', '[]', {}, 422, 'ThresholdError'],
    ['potential loads', '/router', '{"method":"potential_loads","tokens":[1]}', {}, 200, 'RouterResponse'],
    ['an unknown request', '/router', '{"method":"mark_prefill"}', { 'x-request-id': 'b' }, 200, 'RouterResponse'],
  ])('%s', async (_says, path, body, headers, code, shape) => {
    const { url } = await house()
    const response = await (body === undefined ? fetch(url + path, { headers }) : post(url, path, body, headers))
    expect(response.status).toBe(code)
    shapes[shape].parse(await response.json())
  })

  it('a flat error when strict', async () => {
    const { url } = await open({ engines: 1, gateway: { strict: 'dynamo' } })
    shapes.DynamoError.parse(await (await post(url, '/v1/chat/completions', chatBody({ model: 'x' }))).json())
  })
})

it.each<[ShapeName, object]>([
  ['ChatCompletionRequest', { messages: [{ role: 'user', content: 'x' }], temperature: 1, nvext: { dp_rank: 1 } }],
  ['CompletionRequest', { model: 'm', prompt: [[1, 2], [3]], stream: true, stream_options: null }],
  ['ResponseRequest', { input: 'x', reasoning: {} }],
  ['MessageRequest', { messages: [], system: [{ type: 'text', text: 'x' }], max_tokens: 1 }],
  ['GenerateRequest', { input_ids: [1, 2], sampling_params: {} }],
  ['EmbeddingRequest', { input: ['a', 'b'], dimensions: 3 }],
  ['EngineRequest', { model: 'm', query: 'x' }],
])('a %s passes with whatever else it holds', (shape, body) => {
  expect(shapes[shape].parse(body)).toEqual(body)
})
