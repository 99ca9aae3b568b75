import type { AddressInfo, Socket } from 'node:net'
import { createServer } from 'node:net'
import { once } from 'node:events'
import { afterEach, expect, it } from 'vitest'
import { openEngineSocket } from './engine-socket.js'

const open = new Set<Socket>()

afterEach(() => {
  for (const socket of open) socket.destroy()
  open.clear()
})

/** Both ends of a connection, ours first. */
async function connected(): Promise<[ours: Socket, engine: Socket]> {
  const server = createServer()
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const ours = openEngineSocket({ host: '127.0.0.1', port: (server.address() as AddressInfo).port })
  const [engine] = (await once(server, 'connection')) as [Socket]
  server.close()
  open.add(ours).add(engine)
  return [ours, engine]
}

async function nextBytes(ours: Socket): Promise<Buffer> {
  const [bytes] = (await once(ours, 'data')) as [Buffer]
  return bytes
}

it('what one connection brought stays as it was when another brings something', async () => {
  const [first, firstEngine] = await connected()
  const [second, secondEngine] = await connected()
  firstEngine.write('from the first')
  const kept = await nextBytes(first)
  secondEngine.write('SOMETHING ELSE')
  expect((await nextBytes(second)).toString()).toBe('SOMETHING ELSE')
  expect(kept.toString()).toBe('from the first')
})

it('nothing is read while it is paused, and everything afterwards, to the end', async () => {
  const [ours, engine] = await connected()
  const [other, otherEngine] = await connected()
  const arrived: Buffer[] = []
  let size = 0
  ours.on('data', (bytes: Buffer) => {
    arrived.push(bytes)
    size += bytes.length
  })
  ours.pause()
  const sent = Buffer.alloc(300_000, 'abcdefghijk')
  engine.end(sent)
  otherEngine.write('the loop has turned')
  await nextBytes(other)
  expect(size).toBe(0)
  ours.resume()
  await once(ours, 'end')
  expect(Buffer.concat(arrived).equals(sent)).toBe(true)
})
