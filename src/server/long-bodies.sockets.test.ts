// Bodies that are read in steps: what is made of them is what would be made of them at once.
import { request as httpRequest } from 'node:http'
import { expect, it } from 'vitest'
import type { RouteRequest } from '../routing/index.js'
import { InProcessRouter } from '../routing/index.js'
import { answerChat } from './fake-engine.case.js'
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

const long = 'once upon a time '.repeat(50_000)

it.each([
  { says: 'a text', more: { text: long }, shown: { model: 'm', prompt: long } },
  { says: 'several', more: { text: [long, 'x'] }, shown: { model: 'm', prompt: [long, 'x'] } },
  {
    says: 'a text whose session is not ours to open',
    more: { text: long, session_params: { id: 's' } },
    shown: { model: 'm', prompt: long },
  },
  { says: 'a picture beside it', more: { text: long, image_data: 'x' }, shown: undefined },
  { says: 'no text', more: { filler: long }, shown: undefined },
])("SGLang's own route with a long body: $says", async ({ more, shown }) => {
  const given: PromptRequest[] = []
  const tokenizer = {
    tokenize: (request: PromptRequest) => {
      given.push(request)
      return { tokens: ids.subarray(0, 64), isExact: true }
    },
  }
  const { house } = await watched({ engine: 'sglang', model: { tokenizer } })
  expect((await post(house.url, '/generate', JSON.stringify({ model: 'm', ...more }))).status).toBe(200)
  expect(given.map(({ body }) => body)).toEqual(shown ? [undefined] : [])
  if (shown) expect(JSON.parse(Buffer.from(given[0]!.bytes).toString())).toEqual(shown)
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

/** A long body whose every word says whose it is. */
function bodyOf(owner: number, words: number): string {
  return chatBody({ messages: [{ role: 'user', content: `owner${owner} `.repeat(words) }], stream: true })
}

function ownersIn(text: string): readonly string[] {
  return [...new Set(text.match(/owner\d+/g))]
}

/** Sends half of a long body, and then the connection ends. */
function sendHalf(url: string, body: string): Promise<void> {
  return new Promise((resolve) => {
    const headers = { 'content-type': 'application/json', 'content-length': Buffer.byteLength(body) }
    const { port } = new URL(url)
    const request = httpRequest({ port, path: '/v1/chat/completions', method: 'POST', headers })
    request.on('error', () => {}).once('close', resolve)
    request.write(body.slice(0, body.length >> 1), () => setImmediate(() => request.destroy()))
  })
}

// Goal: no engine ever sees bytes of a request that is not the one it was asked.
// Method: every body is full of its owner's name; clients leave, engines break off and refuse at every point, and memory is used again.
it('no engine sees another request than the one it was sent, whoever leaves or breaks', async () => {
  let asked = 0
  const { house } = await watched({
    engines: 2,
    respond(request, response) {
      asked++
      if (asked % 4 === 1) response.socket!.destroy()
      else if (asked % 4 === 2) response.writeHead(503).end()
      else answerChat(request, response)
    },
    gateway: { health: { quarantineMs: [1, 1] } as never },
  })
  const left = new AbortController()
  for (let round = 0; round < 4; round++) {
    const sent: Promise<unknown>[] = []
    for (let at = 0; at < 5; at++) {
      const owner = 10 * round + at
      const body = bodyOf(owner, 60_000 + 130_000 * at)
      if (at === 3) sent.push(sendHalf(house.url, body))
      else if (at === 4) sent.push(postUntil(house.url, body, left.signal))
      else sent.push(post(house.url, '/v1/chat/completions', body).then((answer) => answer.text()))
    }
    if (round === 1) setTimeout(() => left.abort(), 60)
    await Promise.all(sent)
  }
  const seen = house.engines.flatMap((engine) => engine.seen)
  expect(seen.length).toBeGreaterThan(8)
  for (const { text } of seen) {
    expect(ownersIn(text)).toHaveLength(1)
    JSON.parse(text)
  }
})

it('of a long body that is refused the memory is lent again', async () => {
  const { house } = await watched()
  const bad = bodyOf(1, 400_000).slice(0, -1)
  expect((await post(house.url, '/v1/chat/completions', bad)).status).toBe(400)
  const good = bodyOf(2, 300_000)
  expect((await post(house.url, '/v1/chat/completions', good)).status).toBe(200)
  expect(house.engines[0]!.seen[0]!.text === good).toBe(true)
})

it('bodies beyond the memory for them are refused as overload, and those after them are taken', async () => {
  const { house } = await watched({ gateway: { limits: { bodiesBytesMax: 3_000_000 } } })
  const long = bodyOf(1, 500_000)
  expect((await post(house.url, '/v1/chat/completions', long)).status).toBe(529)
  for (let time = 0; time < 3; time++)
    expect((await post(house.url, '/v1/chat/completions', bodyOf(2, 300_000))).status).toBe(200)
})

function postUntil(url: string, body: string, signal: AbortSignal): Promise<unknown> {
  const headers = { 'content-type': 'application/json' }
  return fetch(`${url}/v1/chat/completions`, { method: 'POST', headers, body, signal })
    .then((answer) => answer.text())
    .catch(() => undefined)
}

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
