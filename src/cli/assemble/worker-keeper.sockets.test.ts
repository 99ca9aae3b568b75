import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { afterEach, expect, it } from 'vitest'
import type { EngineFacts } from '../../engines/index.js'
import { LookGate } from './look-gate.js'
import type { KeeperHouse } from './worker-keeper.js'
import { keeperTimes, pauseAfterMiss, WorkerKeeper } from './worker-keeper.js'

const times = { watchMs: 10, retryMs: [5, 20] as const, missesMax: 2, probeMs: 20_000 } // nobody here is slow: who does not answer hangs up
const figures =
  '# TYPE vllm:cache_config_info gauge\nvllm:cache_config_info{block_size="16",engine="0",num_gpu_blocks="9"} 1.0\n'
const open: (() => Promise<unknown>)[] = []

afterEach(async () => {
  for (const close of open.splice(0).toReversed()) await close()
})

/** An engine that answers, or says 503 to every question, and a house that knows whether its requests move. */
async function keptEngine(first: Partial<{ join: boolean; mute: boolean }> = {}, page = figures) {
  const world = { isUp: true, isAnswering: false, isIn: false, joins: 0, leaves: 0, looks: 0, seen: 0, failures: 0 }
  const breaks = { join: false, seen: false, mute: false, empty: false }
  Object.assign(breaks, first)
  const said: EngineFacts[] = []
  const server = createServer((request, response) => {
    if (request.url === '/v1/models') world.looks++
    if (request.url === '/metrics' && breaks.mute) return void request.socket.destroy()
    if (request.url === '/metrics' && world.isUp) return void response.writeHead(200).end(page)
    const cards = breaks.empty ? '' : '{"id":"m","object":"model","owned_by":"vllm"}'
    const body = request.url === '/v1/models' ? `{"object":"list","data":[${cards}]}` : '{}'
    response.writeHead(world.isUp ? 200 : 503, { 'content-type': 'application/json' }).end(world.isUp ? body : '')
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const house = {
    async join(_: WorkerKeeper, facts: EngineFacts) {
      world.joins++
      said.push(facts)
      await Promise.resolve()
      world.isIn = true
      if (breaks.join) throw new Error('after it was let in')
    },
    async seen(_: WorkerKeeper, facts: EngineFacts) {
      world.seen++
      said.push(facts)
      await Promise.resolve()
      if (breaks.seen) throw new Error('of something else')
    },
    leave() {
      world.isIn = false
      world.leaves++
    },
    failed: () => void world.failures++,
    isIn: () => world.isIn,
    isAnswering: () => world.isAnswering,
  }
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  const keeper = new WorkerKeeper(1n, { url }, house, times)
  open.push(
    () => new Promise((resolve) => server.close(resolve)),
    () => keeper.close(),
  )
  await keeper.firstLook
  return { world, breaks, keeper, said }
}

async function looks(world: { looks: number }, count: number): Promise<void> {
  const goal = world.looks + count
  while (world.looks < goal) await new Promise((resolve) => setTimeout(resolve, 5))
}

async function until(isTrue: () => boolean): Promise<void> {
  while (!isTrue()) await new Promise((resolve) => setTimeout(resolve, 5))
}

it('a worker whose requests move is kept although it does not answer questions, and leaves when they stop', async () => {
  const { world } = await keptEngine()
  expect(world.joins).toBe(1)
  Object.assign(world, { isUp: false, isAnswering: true })
  await looks(world, 6)
  expect(world.leaves).toBe(0)
  world.isAnswering = false
  await looks(world, 4)
  expect(world.leaves).toBe(1)
})

it('a worker stays in when the house fails at a look, and still leaves when it falls silent', async () => {
  const { world, breaks, keeper } = await keptEngine()
  breaks.seen = true
  await until(() => world.failures > 2)
  expect(world).toMatchObject({ joins: 1, leaves: 0 })
  expect(keeper.state).toBe('joined')
  world.isUp = false
  await until(() => keeper.state === 'waiting')
  expect(world).toMatchObject({ joins: 1, leaves: 1 })
})

it('a worker that fails while it joins is taken out again, and joins anew', async () => {
  const { world, breaks, keeper } = await keptEngine({ join: true })
  expect(world.joins).toBe(world.leaves)
  expect([world.isIn, keeper.state]).toEqual([false, 'waiting'])
  breaks.join = false
  await until(() => world.seen > 0)
  expect([world.isIn, keeper.state]).toEqual([true, 'joined'])
})

it('what a question said before still holds when it gets no answer', async () => {
  const { world, breaks, said } = await keptEngine()
  breaks.mute = true
  const { seen } = world
  await until(() => world.seen > seen + 2) // the first may have been under way
  expect(said.at(-1)).toEqual(said[0])
  expect(said[0]).toMatchObject({ blockSize: { value: 16 }, usableBlocks: { value: 8 } })
})

it('a worker whose first answers are not all there is waited for, and then taken as it is', async () => {
  const { world, said } = await keptEngine({ mute: true })
  expect(world).toMatchObject({ joins: 0, looks: 1 })
  await until(() => world.joins > 0)
  expect(said[0]!.blockSize).toBeUndefined()
})

it('a process that serves no model any more leaves, however often it says so', async () => {
  const { world, breaks, keeper } = await keptEngine({}, `${figures}process_start_time_seconds 1.7e+09\n`)
  await until(() => world.seen > 0)
  breaks.empty = true
  await looks(world, 6)
  expect([world.leaves, keeper.state]).toEqual([1, 'waiting'])
  breaks.empty = false
  await until(() => world.joins > 1)
  expect(keeper.facts?.models?.value[0]?.name).toBe('m')
})

it('of many addresses a bounded number is asked at once, and all of them are', async () => {
  let asked = 0
  let most = 0
  const server = createServer((request, response) => {
    if (request.url === '/v1/models') most = Math.max(most, ++asked)
    setTimeout(() => {
      if (request.url === '/v1/models') asked--
      response.writeHead(503).end()
    }, 5)
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  const house = { isIn: () => false, isAnswering: () => false } as unknown as KeeperHouse
  const gate = new LookGate({ insideMax: 4, holdMs: 60_000 }) // nobody here is silent
  const keepers = Array.from(
    { length: 30 },
    (_, at) => new WorkerKeeper(BigInt(at + 1), { url }, house, { ...times, retryMs: [60_000, 60_000] }, gate),
  )
  open.push(
    () => new Promise((resolve) => server.close(resolve)),
    () => Promise.all(keepers.map((keeper) => keeper.close())),
  )
  await Promise.all(keepers.map((keeper) => keeper.firstLook))
  expect(most).toBe(4)
  expect(keepers.map(({ trouble }) => trouble)).toEqual(keepers.map(() => '/v1/models answered 503'))
})

it('an address that does not answer is looked at ever more rarely, and stays so', () => {
  const { retryMs } = keeperTimes
  const pauses = [0]
  for (let miss = 0; miss < 8; miss++) pauses.push(pauseAfterMiss(pauses.at(-1)!, retryMs))
  expect(pauses.slice(1)).toEqual([250, 500, 1000, 2000, 4000, 5000, 5000, 5000])
})

it('a look that was given up says nothing of the worker', async () => {
  const server = createServer(() => keeper.dismiss()) // while it is asked
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  open.push(async () => {
    server.closeAllConnections()
    await new Promise((resolve) => server.close(resolve))
  })
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  const nobody = {} as KeeperHouse // who joins, leaves or fails here would be noticed
  const keeper: WorkerKeeper = new WorkerKeeper(1n, { url }, nobody, times)
  await keeper.firstLook
  expect([keeper.state, keeper.trouble]).toEqual(['dismissed', undefined])
})
