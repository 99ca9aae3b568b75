import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { afterEach, expect, it } from 'vitest'
import { WorkerKeeper } from './worker-keeper.js'

const times = { watchMs: 10, retryMs: [5, 20] as const, missesMax: 2, probeMs: 100 }
const open: (() => Promise<unknown>)[] = []

afterEach(async () => {
  for (const close of open.splice(0).toReversed()) await close()
})

/** An engine that answers, or says 503 to every question, and a house that knows whether its requests move. */
async function keptEngine() {
  const world = { isUp: true, isAnswering: false, joins: 0, leaves: 0, looks: 0 }
  const server = createServer((request, response) => {
    if (request.url === '/v1/models') world.looks++
    const body = request.url === '/v1/models' ? '{"object":"list","data":[{"id":"m","object":"model"}]}' : '{}'
    response.writeHead(world.isUp ? 200 : 503, { 'content-type': 'application/json' }).end(world.isUp ? body : '')
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const house = {
    join: () => Promise.resolve(void world.joins++),
    seen: () => Promise.resolve(),
    leave: () => void world.leaves++,
    failed() {},
    isAnswering: () => world.isAnswering,
  }
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  const keeper = new WorkerKeeper(1n, { url }, house, times)
  open.push(
    () => new Promise((resolve) => server.close(resolve)),
    () => keeper.close(),
  )
  await keeper.firstLook
  return world
}

async function looks(world: { looks: number }, count: number): Promise<void> {
  const goal = world.looks + count
  while (world.looks < goal) await new Promise((resolve) => setTimeout(resolve, 5))
}

it('a worker whose requests move is kept although it does not answer questions, and leaves when they stop', async () => {
  const world = await keptEngine()
  expect(world.joins).toBe(1)
  Object.assign(world, { isUp: false, isAnswering: true })
  await looks(world, 6)
  expect(world.leaves).toBe(0)
  world.isAnswering = false
  await looks(world, 4)
  expect(world.leaves).toBe(1)
})
