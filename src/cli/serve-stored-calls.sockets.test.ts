// Goal: whoever asks for a stored response, cancels it or listens to it again gets what its worker says, and work in the
// background holds no booking.
// Method: simulated vLLMs that keep responses, as recorded, on real sockets behind `warmroute serve`; the openai client.
import type { OpenAI } from 'openai'
import { APIError, NotFoundError } from 'openai'
import { expect, it } from 'vitest'
import type { SimEngine } from '../sim/index.js'
import type { Served } from './serve.js'
import { client, isExact, serveOfEachTest } from './serve-house.case.js'

const { engine, start } = serveOfEachTest()

interface Fleet {
  readonly served: Served
  readonly ai: OpenAI
  /** Workers in the order of their engines. */
  readonly workers: readonly string[]
  readonly engines: readonly SimEngine[]
  readonly on: (worker: number) => OpenAI
}

async function fleet(count = 2, speedup = 100): Promise<Fleet> {
  const engines: SimEngine[] = []
  for (let seed = 1; seed <= count; seed++) engines.push(await engine({ isResponseStore: true, seed, speedup }))
  const served = await start(engines.map(({ url }) => url))
  expect(await served.assembly.until(isExact, 10_000)).toBe(true)
  const reports = served.assembly.reports()
  const workers = engines.map(({ url }) => String(reports.find((it) => it.url === url)!.workerId))
  const ai = client(served)
  const on = (at: number): OpenAI => ai.withOptions({ defaultHeaders: { 'x-worker-instance-id': workers[at]! } })
  return { served, ai, workers, engines, on }
}

const body = { model: 'sim', input: 'Tell me of tides. ', max_output_tokens: 8 }

it('looks responses up at the workers that gave them', async () => {
  const { ai, on, workers, engines } = await fleet()
  for (const at of [0, 1]) {
    const given = await on(at).responses.create(body)
    const { data, response } = await ai.responses.retrieve(given.id).withResponse()
    expect(response.headers.get('x-warmroute-worker-id')).toBe(workers[at])
    const direct = await fetch(`${engines[at]!.url}/v1/responses/${given.id}`)
    expect(data).toMatchObject((await direct.json()) as object)
    expect(data.output_text).toBe(given.output_text)
    const refused = await ai.responses.delete(given.id).catch((error: unknown) => error) // vLLM has no such route
    expect(refused).toBeInstanceOf(APIError)
    expect(refused).toMatchObject({ status: 405 })
    const finished = await ai.responses.cancel(given.id).catch((error: unknown) => error)
    expect(finished).toMatchObject({ status: 400, param: 'response_id' })
  }
})

it('frees what is booked for work in the background with its answer, and cancels it at its worker', async () => {
  const { served, ai, on, workers, engines } = await fleet(2, 1)
  const given = await on(1).responses.create({ ...body, max_output_tokens: 4000, background: true })
  expect(given).toMatchObject({ status: 'queued', background: true })
  expect(engines[1]!.stats().in_flight).toBe(1)
  const metrics = await (await fetch(`${served.address.url}/metrics`)).text()
  for (const load of [/worker_active_decode_blocks\{.*\} (\d+)/g, /worker_active_prefill_tokens\{.*\} (\d+)/g])
    expect([...metrics.matchAll(load)].map(([, count]) => count)).toEqual(['0'])
  expect((await ai.responses.retrieve(given.id)).status).toBe('queued')
  const { data, response } = await ai.responses.cancel(given.id).withResponse()
  expect(data.status).toBe('cancelled')
  expect(response.headers.get('x-warmroute-worker-id')).toBe(workers[1])
  while (engines[1]!.stats().in_flight > 0) await new Promise(setImmediate)
  expect((await ai.responses.retrieve(given.id)).status).toBe('cancelled')
})

it('goes on telling a stream to a client that left it, from the event that it names', async () => {
  const { ai, on, engines } = await fleet()
  const first = await on(1).responses.create({ ...body, background: true, stream: true })
  let id: string | undefined
  for await (const event of first) {
    if (event.type === 'response.created') id = event.response.id
    if (event.type === 'response.output_text.delta') break // and leaves
  }
  const asked = { stream: true, starting_after: 3 } as const
  const rest = await ai.responses.retrieve(id!, asked)
  const types: string[] = []
  const sequence: number[] = []
  for await (const event of rest) {
    types.push(event.type)
    sequence.push(event.sequence_number)
  }
  expect(sequence).toEqual(sequence.map((_, at) => at + 4))
  expect(types.at(-1)).toBe('response.completed')
  const query = `/v1/responses/${id}?stream=true&starting_after=3`
  const { response } = await ai.responses.retrieve(id!, asked).withResponse()
  expect(await response.text()).toBe(await (await fetch(engines[1]!.url + query)).text())
})

it('stays with a worker that drains, and says so when that has left', async () => {
  const { served, ai, on, workers } = await fleet(2, 1)
  const given = await on(0).responses.create(body)
  const leaving = new AbortController()
  const running = await on(0).chat.completions.create(
    { model: 'sim', messages: [{ role: 'user', content: 'x' }], max_tokens: 4000, stream: true },
    { signal: leaving.signal },
  )
  await running[Symbol.asyncIterator]().next()
  const drain = await fetch(`${served.address.url}/workers/${workers[0]}/drain`, { method: 'POST' })
  expect(drain.status).toBe(202)
  expect((await ai.responses.retrieve(given.id)).id).toBe(given.id)
  const { response } = await ai.responses.create({ ...body, previous_response_id: given.id }).withResponse()
  expect(response.headers.get('x-warmroute-worker-id')).toBe(workers[0])
  const other = await ai.responses.create(body).withResponse()
  expect(other.response.headers.get('x-warmroute-worker-id')).toBe(workers[1])
  leaving.abort()
  const isGone = async (): Promise<boolean> =>
    !(await (await fetch(`${served.address.url}/workers`)).text()).includes(`"id":"${workers[0]}"`)
  while (!(await isGone())) await new Promise(setImmediate)
  const error = await ai.responses.retrieve(given.id).catch((reason: unknown) => reason)
  expect(error).toBeInstanceOf(NotFoundError)
  expect(error).toMatchObject({ code: 'WR_RESPONSE_NOT_FOUND', param: 'response_id' })
})

it('leaves an id that it does not know to the only worker', async () => {
  const { ai } = await fleet(1)
  const error = await ai.responses.retrieve('resp_0123456789abcdef').catch((reason: unknown) => reason)
  expect(error).toBeInstanceOf(NotFoundError)
  expect((error as NotFoundError).message).toContain("Response with id 'resp_0123456789abcdef' not found.")
})
