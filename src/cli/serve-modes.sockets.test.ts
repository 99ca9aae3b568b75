import { expect, it } from 'vitest'
import type { Served } from './serve.js'
import { client, serveOfEachTest } from './serve-house.case.js'

const { engine, start } = serveOfEachTest()

async function ask(served: Served, headers: Record<string, string> = {}, stream = false): Promise<Response> {
  return fetch(`${served.address.url}/v1/chat/completions`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', ...headers },
    body: JSON.stringify({ model: 'sim', messages: [{ role: 'user', content: 'Who?' }], max_tokens: 4, stream }),
  })
}

it.each(['kv', 'round-robin', 'random', 'least-loaded', 'power-of-two', 'token-balance'])(
  '%s serves streams and whole answers, and frees both',
  async (mode) => {
    const engines = [await engine(), await engine({ engine: 'sglang' })]
    const served = await start([...engines.map(({ url }) => url), '--router-mode', mode])
    const answers = await Promise.all(Array.from({ length: 12 }, (_, at) => ask(served, {}, at % 2 === 0)))
    expect(answers.map(({ status }) => status)).toEqual(answers.map(() => 200))
    for (const [at, answer] of answers.entries())
      expect(await answer.text()).toContain(at % 2 === 0 ? '[DONE]' : 'usage')
    const workers = new Set(answers.map(({ headers }) => headers.get('x-warmroute-worker-id')))
    if (mode === 'round-robin') expect(workers).toEqual(new Set(['1', '2']))
  },
)

it('direct goes where the request says, and refuses who says nothing', async () => {
  const engines = [await engine(), await engine(), await engine()]
  const served = await start([...engines.map(({ url }) => url), '--router-mode', 'direct'])
  for (const worker of ['3', '1', '3', '2']) {
    const answer = await ask(served, { 'x-dynamo-worker-instance-id': worker })
    expect([answer.status, answer.headers.get('x-warmroute-worker-id')]).toEqual([200, worker])
    await answer.text()
  }
  expect(engines.map((it) => it.stats().requests)).toEqual([1, 1, 2])
  const nvext = { backend_instance_id: 2 }
  const body = { model: 'sim', messages: [{ role: 'user' as const, content: 'Who?' }], max_tokens: 4, nvext }
  const { response } = await client(served).chat.completions.create(body).withResponse()
  expect(response.headers.get('x-warmroute-worker-id')).toBe('2')

  const refused = await ask(served)
  expect(refused.status).toBe(400)
  expect(await refused.json()).toMatchObject({
    error: { code: 'WR_INVALID_ARGUMENT', message: expect.stringContaining('x-dynamo-worker-instance-id') as string },
  })
  const nobody = await ask(served, { 'x-dynamo-worker-instance-id': '9' })
  expect([nobody.status, ((await nobody.json()) as { error: { code: string } }).error.code]).toEqual([
    503,
    'WR_NO_ENDPOINTS',
  ])
})
