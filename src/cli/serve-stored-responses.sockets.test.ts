// Goal: a request that goes on with a stored response reaches the worker that stores it, for as long as that worker is there.
// Method: two simulated vLLMs with a response store on real sockets, asked with the openai client through `warmroute serve`.
import type { OpenAI } from 'openai'
import { NotFoundError } from 'openai'
import { expect, it } from 'vitest'
import type { SimEngine } from '../sim/index.js'
import type { Served } from './serve.js'
import { client, isExact, serveOfEachTest } from './serve-house.case.js'

const { engine, start } = serveOfEachTest()

interface Turn {
  readonly id: string
  readonly worker: string
  readonly cachedTokens: string | null
}

async function whole(ai: OpenAI, input: string, previous?: Turn, store = true): Promise<Turn> {
  const body = { model: 'sim', input, store, max_output_tokens: 8, previous_response_id: previous?.id ?? null }
  const { data, response } = await ai.responses.create(body).withResponse()
  expect(data.previous_response_id).toBe(previous?.id ?? null)
  return turnOf(data.id, response)
}

async function streamed(ai: OpenAI, input: string, previous?: Turn): Promise<Turn> {
  const body = { model: 'sim', input, max_output_tokens: 8, previous_response_id: previous?.id ?? null }
  const { data, response } = await ai.responses.create({ ...body, stream: true }).withResponse()
  let id: string | undefined
  for await (const event of data) if (event.type === 'response.completed') id = event.response.id
  return turnOf(id!, response)
}

function turnOf(id: string, { headers }: Response): Turn {
  return { id, worker: headers.get('x-warmroute-worker-id')!, cachedTokens: headers.get('x-warmroute-cached-tokens') }
}

async function fleet(...words: string[]): Promise<{ served: Served; engines: readonly SimEngine[]; ai: OpenAI }> {
  const engines = [await engine({ isResponseStore: true, seed: 1 }), await engine({ isResponseStore: true, seed: 2 })]
  const served = await start([...engines.map(({ url }) => url), ...words])
  const isThere = words.includes('round-robin') ? isKnown : isExact
  expect(await served.assembly.until(isThere, 10_000)).toBe(true)
  return { served, engines, ai: client(served) }
}

const isKnown: typeof isExact = (reports) => reports.every(({ verdict }) => verdict !== undefined)

async function metricsOf({ address }: Served): Promise<string> {
  return (await fetch(`${address.url}/metrics`)).text()
}

const ways: readonly (readonly [string, typeof streamed])[] = [
  ['whole', whole],
  ['streamed', streamed],
]

it.each(ways)('stays on its worker with a chain of stored responses: %s', async (_way, ask) => {
  const { ai, served } = await fleet()
  for (const { workerId } of served.assembly.reports()) {
    const begun = await ask(ai.withOptions({ defaultHeaders: { 'x-worker-instance-id': String(workerId) } }), 'one')
    const second = await ask(ai, 'And then?', begun)
    const third = await ask(ai, 'And after that?', second)
    expect([second.worker, third.worker]).toEqual([String(workerId), String(workerId)])
    expect(third.cachedTokens).toBe('0') // what the engine adds to the prompt is known to nobody else
  }
})

it('says that the worker which held the response has left', async () => {
  const { ai, served } = await fleet()
  const first = await whole(ai, 'one')
  expect((await fetch(`${served.address.url}/workers/${first.worker}`, { method: 'DELETE' })).ok).toBe(true)
  const error = await whole(ai, 'And then?', first).catch((reason: unknown) => reason)
  expect(error).toBeInstanceOf(NotFoundError)
  expect(error).toMatchObject({
    code: 'WR_RESPONSE_NOT_FOUND',
    type: 'not_found_error',
    param: 'previous_response_id',
    message: expect.stringContaining(`worker ${first.worker}, which held it, has left`) as string,
  })
})

it('forgets the oldest response where more are given than it may remember, and counts it', async () => {
  const { ai, served } = await fleet('--router-mode', 'round-robin', '--stored-responses-max', '2')
  const oldest = await whole(ai, 'one')
  const kept = [await whole(ai, 'two'), await whole(ai, 'three')]
  await whole(ai, 'not kept', undefined, false)
  expect(await metricsOf(served)).toContain('warmroute_stored_responses_forgotten_total{model="sim"} 1\n')
  for (const it of kept) expect((await whole(ai, 'And?', it, false)).worker).toBe(it.worker)
  const ends = await Promise.allSettled([1, 2].map(() => whole(ai, 'And?', oldest, false)))
  expect(ends.map(({ status }) => status).sort()).toEqual(['fulfilled', 'rejected']) // by turns: one worker has it
})

it('leaves ids that it does not know to the engine', async () => {
  const { ai } = await fleet()
  const unknown = { id: 'resp_unknown', worker: '', cachedTokens: null }
  const error = await whole(ai, 'And then?', unknown).catch((reason: unknown) => reason)
  expect(error).toBeInstanceOf(NotFoundError)
  expect((error as NotFoundError).message).toContain("Response with id 'resp_unknown' not found.")
})
