// Ids that a model does not have never reach an engine that would end by them; everything else passes as it came.
import { describe, expect, it } from 'vitest'
import { InProcessRouter } from '../../routing/index.js'
import { createMetrics } from '../../telemetry/index.js'
import { errorOf, houseOfEachTest, openHouse, post } from '../house.case.js'
import type { HouseOptions } from '../house.case.js'
import { createPolicyRouter } from '../policies/policy-router.js'
import type { PromptTokenizer } from './prompt.js'

const open = houseOfEachTest()
const knows = (idMax: number | undefined): Partial<HouseOptions> => ({
  model: { tokenizer: { idMax, tokenize: () => undefined } satisfies PromptTokenizer },
})
const long = Array.from({ length: 20_000 }, (_, at) => at % 999)

/** More than are looked at in one turn of the loop. */
const manyIds = Array.from({ length: 600_000 }, () => 7)

describe('an SGLang worker', () => {
  it.each([
    ['/v1/completions', 'prompt', [1, 1000]],
    ['/v1/completions', 'prompt', [[1], [2, 1000]]],
    ['/v1/completions', 'prompt', [-1]],
    ['/v1/completions', 'prompt', [1.5]],
    ['/v1/completions', 'prompt', ['1000', 1]],
    ['/v1/completions', 'prompt', [...long, 1000]],
    ['/v1/completions', 'prompt', [long, [...long, 1000]]],
    ['/v1/completions', 'prompt', [...long, -1]],
    ['/v1/completions', 'prompt', [...long, 2 ** 40]],
    ['/generate', 'input_ids', [1000]],
    ['/generate', 'input_ids', [[1], [1000]]],
    ['/generate', 'input_ids', ['1000']],
    ['/generate', 'input_ids', [...long, '1000']],
    ['/v1/chat/completions', 'input_ids', [1000]],
    ['/v1/embeddings', 'input', [1000]],
    ['/v1/embeddings', 'input', [long, [...long, 1000]]],
    ['/classify', 'input_ids', [1000]],
    ['/v1/classify', 'input', [1000]],
    ['/v1/score', 'query', [1000]],
    ['/v1/score', 'query', ['1000']],
    ['/v1/score', 'items', [[1], []]],
    ['/v1/completions', 'stop_token_ids', [1000]],
    ['/v1/score', 'items', [[1], [1000]]],
  ])('never sees what is no id of its model: %s, %s', async (path, name, value) => {
    const { url, engines } = await open({ engines: 2, engine: 'sglang', ...knows(999) })
    const body = JSON.stringify({ model: 'm', messages: [], [name]: value })
    const error = await errorOf(await post(url, path, body))
    expect(error).toMatchObject({
      status: 400,
      type: 'invalid_request_error',
      code: 'WR_INVALID_TOKEN_ID',
      param: name,
    })
    expect(error.message).toMatch(
      /^`\w+` holds .+, which is no token id of the model: they are integers from 0 to 999\.$/,
    )
    expect(engines.flatMap(({ seen }) => seen)).toEqual([])
  })

  it.each([
    ['/v1/completions', 'prompt', 'the text 5000'],
    ['/v1/completions', 'prompt', [0, 999]],
    ['/v1/completions', 'prompt', [[0], [999]]],
    ['/v1/completions', 'prompt', long],
    ['/v1/completions', 'prompt', [long, long]],
    ['/v1/completions', 'prompt', ['a', 'b']],
    ['/v1/completions', 'prompt', ['5000', '6000']],
    ['/v1/completions', 'prompt', Array.from({ length: 9000 }, () => '5000')],
    ['/v1/completions', 'prompt', ['a', [1, 2]]],
    ['/v1/completions', 'prompt', long.map(String)],
    ['/generate', 'text', ['5000']],
    ['/generate', 'input_ids', long],
    ['/v1/embeddings', 'input', long],
    ['/v1/embeddings', 'input', [{ text: 'a', n: [5000] }]],
    ['/v1/responses', 'input', [{ role: 'user', content: '5000', n: [5000] }]],
    ['/v1/rerank', 'query', 'a'],
    ['/v1/rerank', 'query', [{ type: 'text', text: 'a' }]],
  ])('gets everything else as it came: %s, %s', async (path, name, value) => {
    const { url, engines } = await open({ engines: 1, engine: 'sglang', ...knows(999) })
    const body = JSON.stringify({ model: 'm', [name]: value })
    const response = await post(url, path, body)
    await response.text()
    expect(response.status).toBe(200)
    expect(engines[0]!.seen.map(({ text }) => text)).toEqual([body])
  })

  it.each([
    [[5], 200], // each item stands behind it
    [[5, ...long], 200],
    [[], 400],
    [undefined, 400],
    ['', 400],
  ])('may get an empty list among items behind a query that is not: %#', async (query, status) => {
    const { url, engines } = await open({ engines: 1, engine: 'sglang', ...knows(999) })
    const response = await post(url, '/v1/score', JSON.stringify({ model: 'm', query, items: [[1], []] }))
    await response.text()
    expect({ status: response.status, seen: engines[0]!.seen.length }).toEqual({ status, seen: status === 200 ? 1 : 0 })
  })

  const manyTexts = Array.from({ length: 9000 }, (_, at) => `text ${at} "",`)

  it.each([
    ['/v1/completions', { prompt: '' }, 400],
    ['/v1/completions', { prompt: ['a', ''] }, 400],
    ['/v1/completions', { prompt: [...manyTexts, ''] }, 400],
    ['/generate', { text: ['', ...manyTexts] }, 400],
    ['/v1/score', { query: '', items: [...manyTexts, ''] }, 400],
    ['/v1/score', { query: 'a', items: [...manyTexts, ''] }, 200],
    ['/v1/completions', { prompt: manyTexts }, 200],
    ['/tokenize', { prompt: '' }, 200], // of which its scheduler never hears
    ['/v1/completions', { prompt: 'a "",'.repeat(9000) }, 200],
  ])('gets no empty text unless something is known to stand around texts: %s, %#', async (path, fields, status) => {
    for (const fillsEmptyTexts of [false, undefined, true]) {
      const tokenizer: PromptTokenizer = { fillsEmptyTexts, tokenize: () => undefined }
      const house = await openHouse({ engines: 1, engine: 'sglang', model: { tokenizer } })
      const response = await post(house.url, path, JSON.stringify({ model: 'm', ...fields }))
      await response.text()
      expect(response.status).toBe(fillsEmptyTexts ? 200 : status)
      expect(house.engines[0]!.seen.length).toBe(response.status === 200 ? 1 : 0)
      await house.close()
    }
  })

  it.each([
    ['an id that 31 bits do not hold', 2 ** 31, 400],
    ['a negative one', -1, 400],
    ['a fraction', 0.5, 400],
    ['one that a model may have', 2 ** 31 - 1, 200],
  ])('of a model whose ids nobody knows: %s', async (_says, id, status) => {
    for (const ids of [[id], [...long, id]]) {
      const house = await openHouse({ engines: 1, engine: 'sglang' })
      const response = await post(house.url, '/v1/completions', JSON.stringify({ model: 'm', prompt: ids }))
      expect({ status: response.status, text: await response.text() }).toMatchObject(
        status === 200 ? { status } : { status, text: expect.stringContaining(`from 0 to ${2 ** 31 - 1}`) as string },
      )
      expect(house.engines[0]!.seen.length).toBe(status === 200 ? 1 : 0)
      await house.close()
    }
  })

  it('is guarded as one among others', async () => {
    const { url, gateway, engines } = await open({ engines: 2, ...knows(999) })
    const ask = async (): Promise<number> => {
      const response = await post(url, '/v1/completions', '{"model":"m","prompt":[1000]}')
      await response.text()
      return response.status
    }
    expect(await ask()).toBe(200) // vLLM, which refuses such ids by itself
    gateway.setWorker('m', { id: 2n, url: engines[1]!.url, engine: 'sglang' })
    expect(await ask()).toBe(400)
    gateway.setWorker('m', { id: 2n, url: engines[1]!.url, engine: 'vllm' })
    expect(await ask()).toBe(200)
  })
})

describe('an SGLang that joined while a request waited for a worker', () => {
  it.each([
    [{ prompt: [1000] }, 'WR_INVALID_TOKEN_ID', 'prompt'],
    [{ prompt: [...long, 1000] }, 'WR_INVALID_TOKEN_ID', 'prompt'],
    [{ prompt: [...manyIds, 1000] }, 'WR_INVALID_TOKEN_ID', 'prompt'],
    [{ prompt: manyIds }, undefined, undefined],
    [{ prompt: 'x', top_k: 2 ** 40 }, 'WR_INVALID_BODY', 'top_k'],
    [{ prompt: 'x', stop_regex: '(a+)+b' }, 'WR_INVALID_BODY', 'stop_regex'],
    [{ prompt: [999] }, undefined, undefined],
  ])('never sees them either: %#', async (asked, code, param) => {
    const router = createPolicyRouter({ policy: 'round-robin' })
    const route = router.route.bind(router)
    let join = (): void => {}
    const joined = new Promise<void>((resolve) => (join = resolve))
    const waits = new Promise<void>((resolve) => {
      router.route = async (request) => {
        resolve()
        await joined
        return route(request)
      }
    })
    const { url, gateway, engines } = await open({ engines: 2, router, ...knows(999) })
    gateway.removeWorker(2n)
    const answer = post(url, '/v1/completions', JSON.stringify({ model: 'm', ...asked }))
    await waits
    gateway.setWorker('m', { id: 2n, url: engines[1]!.url, engine: 'sglang' })
    gateway.removeWorker(1n)
    join()
    const response = await answer
    if (code === undefined) expect(response.status).toBe(200)
    else expect(await errorOf(response)).toMatchObject({ status: 400, code, param })
    await response.text().catch(() => undefined)
    expect(engines.map(({ seen }) => seen.length)).toEqual([0, code === undefined ? 1 : 0])
    expect(gateway.workers()[0]!.is_quarantined).toBe(false)
  })
})

it('a refusal is spoken in the words of each API, counted, and the same for a stream and a dry run', async () => {
  const metrics = createMetrics()
  const { url } = await open({ engines: 1, engine: 'sglang', ...knows(999), gateway: { metrics } })
  const body = { model: 'm', prompt: [1000], input_ids: [1000], messages: [], max_tokens: 1 }
  const anthropic = await post(url, '/v1/messages', JSON.stringify(body))
  expect({ status: anthropic.status, said: await anthropic.json() }).toMatchObject({
    status: 400,
    said: { type: 'error', error: { type: 'invalid_request_error' } },
  })
  for (const more of [{ stream: true }, { nvext: { annotations: ['query_instance_id:'] } }]) {
    const response = await post(url, '/v1/completions', JSON.stringify({ ...body, ...more }))
    expect(await errorOf(response)).toMatchObject({ status: 400, code: 'WR_INVALID_TOKEN_ID' })
  }
  const text = await (await fetch(`${url}/metrics`)).text()
  const counted = text.split('\n').filter((line) => line.startsWith('dynamo_frontend_requests_total{'))
  const ofCompletions = counted.filter((line) => /endpoint="completions"/.test(line) && !line.endsWith(' 0'))
  expect(ofCompletions.map((line) => [/error_type="(\w+)"/.exec(line)?.[1], line.split(' ').at(-1)])).toEqual([
    ['validation', '1'],
    ['validation', '1'],
  ])
})

it('a refusal is flat where strict', async () => {
  const { url } = await open({ engines: 1, engine: 'sglang', ...knows(999), gateway: { strict: 'dynamo' } })
  const response = await post(url, '/v1/completions', '{"model":"m","prompt":[1000]}')
  expect({ status: response.status, said: await response.json() }).toEqual({
    status: 400,
    said: {
      message: '`prompt` holds 1000, which is no token id of the model: they are integers from 0 to 999.',
      type: 'Bad Request',
      code: 400,
    },
  })
})

it.each([
  ['/v1/completions', { prompt: 'x', top_k: 2 ** 40 }, 'top_k', '`top_k` has to be at most 2147483647.'],
  ['/v1/completions', { prompt: 'x', logprobs: 1001 }, 'logprobs', '`logprobs` has to be at most 1000.'],
  [
    '/v1/chat/completions',
    { messages: [], stop_regex: '(a+)+b' },
    'stop_regex',
    '`stop_regex` is not passed on, unless `allowed_engine_fields` names it.',
  ],
])('%s refuses what holds up or ends an SGLang: %j', async (path, asked, param, message) => {
  for (const [engine, allowedEngineFields] of [
    ['vllm', []],
    ['sglang', []],
    ['sglang', ['stop_regex']],
  ] as const) {
    const one = await openHouse({ engines: 1, engine, ...knows(999), gateway: { allowedEngineFields } })
    const response = await post(one.url, path, JSON.stringify({ model: 'm', ...asked }))
    if (engine === 'vllm' || param === allowedEngineFields[0]) expect(response.status).toBe(200)
    else expect(await errorOf(response)).toMatchObject({ status: 400, code: 'WR_INVALID_BODY', param, message })
    await response.text().catch(() => undefined)
    expect(one.engines[0]!.seen.length).toBe(response.status === 200 ? 1 : 0)
    await one.close()
  }
})

it('a tokenizer that asks an engine never sees them either', async () => {
  const asked: unknown[] = []
  const tokenizer: PromptTokenizer = { idMax: 999, tokenize: (it) => void asked.push(it) }
  const router = await InProcessRouter.create({ blockSize: 16, config: { useKvEvents: false } })
  const { url } = await open({ engines: 1, engine: 'sglang', router, model: { tokenizer } })
  expect((await post(url, '/v1/chat/completions', '{"model":"m","messages":[],"input_ids":[1000]}')).status).toBe(400)
  expect(asked).toEqual([])
})
