/** Names that workers tell of their models: how long they are listed, and what a request for one gets. */
import { describe, expect, it } from 'vitest'
import type { House } from './house.case.js'
import { chatBody, houseOfEachTest, json, post } from './house.case.js'
import { awayMs } from './model-hub.js'
import type { WorkerSpec } from './options.js'
import { createPolicyRouter } from './policies/policy-router.js'

const open = houseOfEachTest()

const served = [200, undefined]

type Told = Pick<WorkerSpec, 'aliases' | 'adapters' | 'role'>

/** A model with two workers that say which adapters they have: none, unless a test lets them tell more. */
async function openNames(): Promise<{
  readonly house: House
  readonly tell: (at: number, told: Told, model?: string) => void
  readonly names: () => Promise<string[]>
  readonly ask: (model: string) => Promise<readonly [status: number, code: unknown]>
  readonly pass: (ms: number) => void
}> {
  let passedMs = 0
  const house = await open({ engines: 2, gateway: { now: () => performance.now() + passedMs } })
  const { gateway, engines, url } = house
  const tell = (at: number, told: Told, model = 'm'): void =>
    gateway.setWorker(model, { id: BigInt(at), url: engines[at - 1]!.url, engine: 'vllm', adapters: [], ...told })
  tell(1, {})
  tell(2, {})
  return {
    house,
    tell,
    async names() {
      const { data } = (await json(await fetch(`${url}/v1/models`))) as unknown as { data: { id: string }[] }
      return data.map(({ id }) => id)
    },
    async ask(model) {
      const response = await post(url, '/v1/chat/completions', chatBody({ model }))
      const body = (await response.json()) as { error?: { code?: unknown } }
      return [response.status, body.error?.code]
    },
    pass: (ms) => void (passedMs += ms),
  }
}

/** By which name each engine was asked. */
function modelsAsked({ engines }: House): string[][] {
  return engines.map(({ seen }) => seen.map(({ text }) => (JSON.parse(text) as { model: string }).model))
}

describe('a name that workers tell', () => {
  it('stays while one of them tells it, and is unknown once the last is seen without it', async () => {
    const { tell, names, ask } = await openNames()
    tell(1, { aliases: ['short'], adapters: ['french'] })
    tell(2, { aliases: ['short'], adapters: ['french'] })
    expect(await names()).toEqual(['m', 'short', 'french'])
    tell(1, {})
    expect(await names()).toEqual(['m', 'short', 'french'])
    expect([await ask('short'), await ask('french')]).toEqual([served, served])
    tell(2, {})
    expect(await names()).toEqual(['m'])
    for (const name of ['short', 'french']) expect(await ask(name)).toEqual([404, 'WR_MODEL_NOT_FOUND'])
  })

  it('is away when the last of them leaves: not listed, not denied, and back with it', async () => {
    const { house, tell, names, ask, pass } = await openNames()
    tell(2, { aliases: ['short'], adapters: ['french'] })
    house.gateway.removeWorker(2n)
    pass(awayMs / 2)
    expect(await names()).toEqual(['m'])
    expect(await ask('short')).toEqual(served) // who else serves the model serves it under any alias
    expect((await ask('french'))[0]).toBe(503)
    tell(1, {}) // the others tell nothing new of it
    expect((await ask('french'))[0]).toBe(503)
    tell(2, { aliases: ['short'], adapters: ['french'] })
    expect(await names()).toEqual(['m', 'short', 'french'])
    pass(awayMs)
    expect(await ask('french')).toEqual(served)
  })

  it('is unknown when none of them has come back in time', async () => {
    const { house, tell, ask, pass } = await openNames()
    tell(2, { aliases: ['short'], adapters: ['french'] })
    house.gateway.removeWorker(2n)
    pass(awayMs)
    for (const name of ['short', 'french']) expect(await ask(name)).toEqual([404, 'WR_MODEL_NOT_FOUND'])
    tell(2, { adapters: ['french'] })
    expect(await ask('french')).toEqual(served)
    expect(await ask('short')).toEqual([404, 'WR_MODEL_NOT_FOUND'])
  })

  it('is unknown when it has come back without it', async () => {
    const { house, tell, ask } = await openNames()
    tell(2, { aliases: ['short'], adapters: ['french'] })
    house.gateway.removeWorker(2n)
    tell(2, {})
    for (const name of ['short', 'french']) expect(await ask(name)).toEqual([404, 'WR_MODEL_NOT_FOUND'])
  })

  it('is as unready as its model while nobody serves that', async () => {
    const { house, tell, names, ask, pass } = await openNames()
    tell(2, { aliases: ['short'], adapters: ['french'] })
    for (const id of [2n, 1n]) house.gateway.removeWorker(id)
    pass(10 * awayMs)
    for (const name of ['m', 'short', 'french']) expect((await ask(name))[0]).toBe(503)
    tell(1, {})
    expect(await names()).toEqual(['m'])
    for (const name of ['short', 'french']) expect(await ask(name)).toEqual([404, 'WR_MODEL_NOT_FOUND'])
  })

  it('means what those say who tell it now, whatever it meant before', async () => {
    const { house, tell, names, ask } = await openNames()
    tell(1, { adapters: ['x'] })
    tell(1, { aliases: ['x'] })
    expect([await names(), await ask('x')]).toEqual([['m', 'x'], served])
    tell(2, { adapters: ['x'] })
    house.gateway.removeWorker(1n)
    expect([await names(), await ask('x')]).toEqual([['m', 'x'], served])
    expect(modelsAsked(house)).toEqual([['m'], ['x']])
    tell(1, {})
    house.gateway.removeWorker(2n)
    tell(2, { aliases: ['x'] })
    expect([await names(), await ask('x')]).toEqual([['m', 'x'], served])
    expect(modelsAsked(house).flat().sort()).toEqual(['m', 'm', 'x'])
  })

  it('goes to another model that tells it, too, and not before', async () => {
    const { house, tell, names, ask } = await openNames()
    const router = createPolicyRouter({ policy: 'random' })
    house.gateway.removeWorker(2n)
    house.gateway.addModel({ name: 'other', blockSize: 16, router })
    tell(1, { adapters: ['french'] })
    tell(2, { aliases: ['french'] }, 'other')
    expect(await names()).toEqual(['m', 'other', 'french'])
    expect(house.engines.map(({ seen }) => seen.length)).toEqual([0, 0])
    await ask('french')
    expect(house.engines.map(({ seen }) => seen.length)).toEqual([1, 0])
    tell(1, {})
    expect(await ask('french')).toEqual(served)
    expect(house.engines.map(({ seen }) => seen.length)).toEqual([1, 1])
    await router.close()
  })

  it('stays for good where the model was added with it', async () => {
    const { house, names } = await openNames()
    const router = createPolicyRouter({ policy: 'random' })
    const worker = { id: 3n, url: house.engines[0]!.url, engine: 'vllm', aliases: ['own', 'told'] } as const
    house.gateway.addModel({ name: 'other', aliases: ['own'], blockSize: 16, router, workers: [worker] })
    expect(await names()).toEqual(['m', 'other', 'own', 'told'])
    house.gateway.setWorker('other', { ...worker, aliases: [] })
    expect(await names()).toEqual(['m', 'other', 'own'])
    await router.close()
  })
})
