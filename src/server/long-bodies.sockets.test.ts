// Bodies that are read in steps: what is made of them is what would be made of them at once.
import { request as httpRequest } from 'node:http'
import { expect, it } from 'vitest'
import type { RouteRequest } from '../routing/index.js'
import { InProcessRouter } from '../routing/index.js'
import type { House, HouseOptions } from './house.case.js'
import { chatBody, houseOfEachTest, post } from './house.case.js'
import type { PromptRequest } from './request/prompt.js'

const open = houseOfEachTest()
const count = 200_000
const ids = Uint32Array.from({ length: count }, (_, at) => (at * 7919) % 151_643)
const listed = ids.join(',')

/** A house whose router keeps what it was asked. */
async function watched(options: HouseOptions = {}): Promise<{ readonly house: House; readonly asked: RouteRequest[] }> {
  const asked: RouteRequest[] = []
  const router = await InProcessRouter.create({ blockSize: 16, config: { useKvEvents: false } })
  const route = router.route.bind(router)
  router.route = (request) => {
    asked.push(request)
    return route(request)
  }
  return { house: await open({ engines: 1, router, ...options }), asked }
}

it.each([
  ['/v1/completions', `{"model":"m","prompt":[${listed}]}`],
  ['/v1/completions', `{"model":"m","prompt":[[${listed}],[1,2]]}`],
  ['/generate', `{"model":"m","input_ids":[${listed}]}`],
  ['/v1/chat/completions', chatBody({ nvext: { token_data: [...ids] } })],
])('%s: many token ids are the prompt, and the engine gets the bytes as they came', async (path, body) => {
  const { house, asked } = await watched({ engine: path === '/generate' ? 'sglang' : 'vllm' })
  expect((await post(house.url, path, body)).status).toBe(200)
  expect(Buffer.from(asked[0]!.tokens!.slice().buffer).equals(Buffer.from(ids.buffer))).toBe(true)
  const sent = house.engines[0]!.seen[0]!.text
  expect(sent).toBe(path.endsWith('chat/completions') ? chatBody() : body)
})

it('a body that would hold the loop while it is parsed comes to the tokenizer as bytes', async () => {
  const given: PromptRequest[] = []
  const tokenizer = {
    tokenize: (request: PromptRequest) => {
      given.push(request)
      return { tokens: ids.subarray(0, 64), isExact: true }
    },
  }
  const { house } = await watched({ model: { tokenizer } })
  const light = chatBody({ filler: 'x'.repeat(100_000) })
  const rich = chatBody({ messages: Array(20_000).fill({ role: 'user', content: 'x' }) })
  for (const body of [light, rich]) expect((await post(house.url, '/v1/chat/completions', body)).status).toBe(200)
  expect(given[0]!.body).toEqual(JSON.parse(light))
  expect(given[1]!.body).toBeUndefined()
  expect(Buffer.from(given[1]!.bytes).toString()).toBe(rich)
})

it('a long body of unknown length arrives whole', async () => {
  const { house } = await watched()
  const body = chatBody({ filler: 'é'.repeat(6_000_000) })
  const status = await new Promise<number | undefined>((resolve, reject) => {
    const { port } = new URL(house.url)
    const headers = { 'content-type': 'application/json', 'transfer-encoding': 'chunked' }
    const request = httpRequest({ port, path: '/v1/chat/completions', method: 'POST', headers }, (response) => {
      response.resume().once('end', () => resolve(response.statusCode))
    })
    request.once('error', reject).end(body)
  })
  expect(status).toBe(200)
  expect(house.engines[0]!.seen[0]!.text === body).toBe(true)
})

it.each([
  ['a field that the gateway decides by', { vllm_xargs: { kv_transfer_params: 'x'.repeat(40_000) } }],
  ['nvext without ids', { nvext: { annotations: Array(10_000).fill('abcd') } }],
  ['nvext with ids that are none', { nvext: { token_data: [...ids, 'x'] } }],
  ['nvext with several prompts', { nvext: { token_data: [[...ids]] } }],
])('refuses what it could not read: %s', async (_says, more) => {
  const { house } = await watched()
  const response = await post(house.url, '/v1/chat/completions', chatBody(more))
  expect(response.status).toBe(400)
  expect(house.engines[0]!.seen).toEqual([])
})

it('a dry run shows as many ids as there are', async () => {
  const { house } = await watched()
  const body = `{"model":"m","prompt":[${listed}],"nvext":{"annotations":["query_instance_id:"]}}`
  const answer = (await (await post(house.url, '/v1/completions', body)).json()) as { nvext: { token_ids: number[] } }
  expect(answer.nvext.token_ids).toHaveLength(count)
  expect(answer.nvext.token_ids.join(',') === listed).toBe(true)
})
