/** `warmroute serve` and the names that engines tell of their models: aliases and adapters. */
import { expect, it, vi } from 'vitest'
import { client, serveOfEachTest } from './serve-house.case.js'

const { engine, start } = serveOfEachTest()

it('a model has the names of all its engines, whoever answers first, and adapters only where they are', async () => {
  const [plain, named] = [await engine(), await engine({ models: ['sim', 'short'], adapters: ['french'] })]
  for (const urls of [
    [plain.url, named.url],
    [named.url, plain.url],
  ]) {
    const served = await start(urls)
    const ai = client(served)
    const models = await ai.models.list()
    expect(models.data.map(({ id }) => id).sort()).toEqual(['french', 'short', 'sim'])
    const messages = [{ role: 'user', content: 'a' }] as const
    for (const model of ['short', 'french', 'short', 'french', 'french'])
      await ai.chat.completions.create({ model, messages: [...messages], max_tokens: 1 })
    await served.close()
  }
})

it('an adapter goes when its engine unloads it, and comes back when it is loaded again', async () => {
  const adapters = ['french']
  const [plain, named] = [await engine(), await engine({ adapters })]
  const served = await start([plain.url, named.url])
  const ai = client(served)
  const listed = async (): Promise<string[]> => (await ai.models.list()).data.map(({ id }) => id).sort()
  const status = (): Promise<number> =>
    ai.chat.completions
      .create({ model: 'french', messages: [{ role: 'user', content: 'a' }], max_tokens: 1 })
      .then(() => 200)
      .catch((error: { status: number }) => error.status)
  expect([await listed(), await status()]).toEqual([['french', 'sim'], 200])
  adapters.pop()
  await vi.waitUntil(async () => (await listed()).length === 1, 60_000)
  expect(await status()).toBe(404)
  expect([plain, named].map((it) => it.stats().in_flight)).toEqual([0, 0])
  adapters.push('french')
  await vi.waitUntil(async () => (await listed()).length === 2, 60_000)
  expect(await status()).toBe(200)
})

it('an alias keeps no model of that name away, whoever answers first', async () => {
  const [named, short] = [await engine({ models: ['sim', 'short'] }), await engine({ models: ['short'] })]
  for (const first of [named, short]) {
    const { assembly } = await start([first.url, (first === named ? short : named).url])
    const models = assembly.reports().map(({ model }) => model)
    expect(new Set(models)).toEqual(new Set(['short', 'sim']))
    await assembly.close()
  }
})
