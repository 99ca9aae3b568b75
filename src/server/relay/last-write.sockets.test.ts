import { Duplex } from 'node:stream'
import { afterEach, expect, it } from 'vitest'
import { chatBody, houseOfEachTest } from '../house.case.js'
import type { RawEngine } from '../raw-engine.case.js'
import { chunk, startRawEngine, streamHead } from '../raw-engine.case.js'

const open = houseOfEachTest()
let engine: RawEngine | undefined

afterEach(async () => {
  await engine?.close()
  engine = undefined
})

/** A client that remembers what it was given at once. */
class CountingClient extends Duplex {
  readonly writes: string[] = []
  readonly ended: Promise<void>
  #end: () => void = () => {}

  constructor() {
    super()
    this.ended = new Promise((resolve) => (this.#end = resolve))
  }

  ask(body: string): void {
    const head = `POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n`
    this.push(`${head}content-length: ${Buffer.byteLength(body)}\r\n\r\n${body}`)
  }

  setTimeout(): void {}

  override _read(): void {}

  override _write(bytes: Buffer, _encoding: string, taken: () => void): void {
    this.#note(bytes.toString('latin1'), taken)
  }

  override _writev(parts: { chunk: Buffer | string }[], taken: () => void): void {
    this.#note(parts.map(({ chunk: part }) => part.toString()).join(''), taken)
  }

  #note(text: string, taken: () => void): void {
    this.writes.push(text)
    taken()
    if (text.endsWith('0\r\n\r\n')) this.#end()
  }
}

const event = (text: string): string => `data: {"choices":[{"delta":{"content":"${text}"}}]}\n\n`
const done = 'data: [DONE]\n\n'
const end = '0\r\n\r\n'

it.each([
  { says: 'after others', first: chunk(event('one')), last: chunk(event('two')) + chunk(done) + end },
  { says: 'with all others', first: '', last: chunk(event('two')) + chunk(done) + end },
])('the last events of a stream leave in one write with its end, $says', async ({ first, last }) => {
  let send: (() => void) | undefined
  engine = await startRawEngine((socket) => {
    socket.write(streamHead + first)
    send = () => void socket.write(last)
  })
  const { gateway } = await open({ engines: 0, model: { workers: [{ id: 1n, url: engine.url, engine: 'vllm' }] } })
  const client = new CountingClient()
  gateway.accept(client)
  client.ask(chatBody({ stream: true }))
  await expect.poll(() => send).toBeDefined()
  if (first) await expect.poll(() => client.writes.length).toBe(1)
  send!()
  await client.ended
  expect(client.writes.at(-1)).toContain(last)
  expect(client.writes).toHaveLength(first ? 2 : 1)
})
