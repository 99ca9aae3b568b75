// How a gateway ends: who may finish, who is refused, and what those are told who are given up.
import { connect } from 'node:net'
import { readFileSync } from 'node:fs'
import { Duplex } from 'node:stream'
import { describe, expect, it } from 'vitest'
import { chatFrames, startThen } from './fake-engine.case.js'
import { chatBody, houseOfEachTest, post } from './house.case.js'

const open = houseOfEachTest()
const frames = chatFrames('m')

async function until(holds: () => boolean): Promise<void> {
  while (!holds()) await new Promise((resolve) => setImmediate(resolve))
}

/** Time passes when a test says so. */
function stoppedClock() {
  let nowMs = 0
  return { now: () => nowMs, advance: (ms: number) => void (nowMs += ms) }
}

async function statuses(url: string): Promise<Record<string, number>> {
  const found: Record<string, number> = {}
  for (const path of ['/health', '/ready', '/live', '/metrics']) {
    const response = await fetch(url + path)
    await response.text()
    found[path] = response.status
  }
  return found
}

describe('the end of a gateway', () => {
  it('lets streams end, refuses what is new, and then is gone', async () => {
    let finish = (): void => {}
    const respond = startThen((response) => {
      finish = () => response.end(frames.slice(2).join(''))
    })
    const { url, gateway } = await open({ engines: 1, respond })
    const response = await post(url, '/v1/chat/completions', chatBody({ stream: true }))
    await until(() => gateway.inFlight === 1)
    const closed = gateway.close()
    const refused = await post(url, '/v1/chat/completions', chatBody())
    expect([refused.status, refused.headers.get('connection')]).toEqual([503, 'close'])
    expect(await refused.text()).toContain('WR_SHUTTING_DOWN')
    expect(await statuses(url)).toEqual({ '/health': 503, '/ready': 503, '/live': 200, '/metrics': 200 })
    finish()
    expect(await response.text()).toBe(frames.join(''))
    await closed
    await expect(fetch(`${url}/live`)).rejects.toThrow()
  })

  it('says 503 and still serves while the grace lasts, so that balancers look away before anything is refused', async () => {
    const clock = stoppedClock()
    const { url, gateway } = await open({ engines: 1, gateway: { ...clock, deadlines: { graceMs: 2_500 } } })
    expect(await statuses(url)).toMatchObject({ '/health': 200, '/ready': 200 })
    const closed = gateway.close()
    expect(await statuses(url)).toEqual({ '/health': 503, '/ready': 503, '/live': 200, '/metrics': 200 })
    for (const stream of [true, false]) {
      const response = await post(url, '/v1/chat/completions', chatBody({ stream }))
      expect([response.status, response.headers.get('connection')]).toEqual([200, 'close'])
      await response.text()
    }
    clock.advance(2_500)
    await closed
    await expect(fetch(`${url}/live`)).rejects.toThrow()
  })

  it('does not wait for those whom it refuses', async () => {
    const { url, gateway } = await open({
      engines: 1,
      respond: startThen(() => {}),
      gateway: { deadlines: { drainMs: 60_000 } },
    })
    const controller = new AbortController()
    const response = await fetch(`${url}/v1/chat/completions`, {
      method: 'POST',
      body: chatBody({ stream: true }),
      headers: { 'content-type': 'application/json' },
      signal: controller.signal,
    })
    const closed = gateway.close()
    const slow = connect(Number(new URL(url).port), '127.0.0.1')
    slow.on('error', () => {})
    slow.write('POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ncontent-length: 100\r\n\r\n{')
    await until(() => gateway.inFlight === 2)
    controller.abort()
    await expect(response.text()).rejects.toThrow()
    await closed
    slow.destroy()
  })

  it('gives up what does not end in time', async () => {
    const { url, gateway } = await open({
      engines: 1,
      respond: startThen(() => {}),
      gateway: { deadlines: { drainMs: 30 } },
    })
    const response = await post(url, '/v1/chat/completions', chatBody({ stream: true }))
    await gateway.close()
    expect(await response.text()).toContain('WR_SHUTTING_DOWN')
  })

  it('waits a moment for those whom it gives up to take what they are told', async () => {
    const clock = stoppedClock()
    const { gateway } = await open({
      engines: 1,
      respond: startThen(() => {}),
      gateway: { ...clock, deadlines: { drainMs: 30 } },
    })
    const client = new SlowClient()
    gateway.accept(client)
    client.ask(chatBody({ stream: true }))
    await until(() => client.hasWaiting)
    const closed = gateway.close()
    await until(() => {
      clock.advance(1)
      return gateway.inFlight === 0
    })
    client.takeAll()
    await closed
    expect(client.text).toContain('WR_SHUTTING_DOWN')
  })

  it('waits for no handshake', async () => {
    const read = (name: string): string =>
      readFileSync(new URL(`../../test/fixtures/tls/${name}.pem`, import.meta.url), 'utf8')
    const tls = { cert: read('cert'), key: read('key') }
    const { url, gateway } = await open({ engines: 1, gateway: { listen: { port: 0, tls } } })
    const mute = connect(Number(new URL(url).port), '127.0.0.1')
    await new Promise((resolve) => mute.once('connect', resolve))
    const cut = new Promise((resolve) => mute.once('close', resolve))
    mute.on('error', () => {})
    mute.resume()
    await gateway.close()
    await cut
  })
})

/** A connection whose other end takes nothing until it is told to. */
class SlowClient extends Duplex {
  text = ''
  #take: (() => void) | undefined
  #isReading = false

  get hasWaiting(): boolean {
    return this.#take !== undefined
  }

  ask(body: string): void {
    const head = `POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n`
    this.push(`${head}content-length: ${Buffer.byteLength(body)}\r\n\r\n${body}`)
  }

  takeAll(): void {
    this.#isReading = true
    this.#take?.()
  }

  setTimeout(): void {}

  override _read(): void {}

  override _write(bytes: Buffer, _encoding: string, taken: () => void): void {
    this.text += bytes.toString('utf8')
    if (this.#isReading) taken()
    else this.#take = taken
  }
}
