import { connect } from 'node:net'
import type { Socket } from 'node:net'
import { expect, it } from 'vitest'
import type { Responder } from './fake-engine.case.js'
import { chatBody, houseOfEachTest } from './house.case.js'

const open = houseOfEachTest()

const textBytes = 12 << 20 // more than the system's buffers hold on both sides together

/** One answer in one piece, which is held here until its client takes it: a field is added to it. */
const answerLong: Responder = (_request, response) => {
  const text = JSON.stringify({ choices: [{ message: { content: 'x'.repeat(textBytes) } }] })
  response.writeHead(200, { 'content-type': 'application/json', 'content-length': text.length }).end(text)
}

/** Asks, and reads nothing but what the system reads ahead. */
async function askWithoutReading(url: string): Promise<Socket> {
  const socket = connect(Number(new URL(url).port), '127.0.0.1')
  socket.on('error', () => {})
  const body = chatBody({ nvext: { extra_fields: ['worker_id'] } })
  const length = `content-length: ${body.length}`
  socket.write(
    `POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n${length}\r\n\r\n${body}`,
  )
  await new Promise<void>((resolve) => socket.once('readable', resolve))
  return socket
}

async function readAll(socket: Socket): Promise<Buffer> {
  const parts: Buffer[] = []
  for await (const part of socket) parts.push(part as Buffer)
  return Buffer.concat(parts)
}

it('a gateway that closes waits until a slow client has the last byte of its answer', async () => {
  const { url, gateway } = await open({ engines: 1, respond: answerLong })
  const socket = await askWithoutReading(url)
  expect(gateway.inFlight).toBe(0) // the engine is done, and so is the request
  const closed = gateway.close()
  await new Promise((resolve) => setTimeout(resolve, 50))
  const answer = await readAll(socket)
  const head = answer.indexOf('\r\n\r\n')
  const length = Number(/content-length: (\d+)/i.exec(answer.toString('latin1', 0, head))![1])
  expect(length).toBeGreaterThan(textBytes)
  expect(answer.length - head - 4).toBe(length)
  await closed
})

it('and not beyond its deadline', async () => {
  const { url, gateway } = await open({ engines: 1, respond: answerLong, gateway: { deadlines: { drainMs: 30 } } })
  const socket = await askWithoutReading(url)
  await gateway.close()
  expect((await readAll(socket).catch(() => Buffer.alloc(0))).length).toBeLessThan(textBytes)
})
