import type { ChildProcess } from 'node:child_process'
import { spawn } from 'node:child_process'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import { afterAll, expect, it } from 'vitest'
import { Publisher, Router } from 'zeromq'
import { FakeRank } from '../../test/property/fake-rank.js'

const folder = mkdtempSync(join(tmpdir(), 'warmroute-warm-'))
const children: ChildProcess[] = []
afterAll(() => {
  for (const child of children) child.kill('SIGKILL')
  rmSync(folder, { recursive: true })
})

interface Line {
  readonly lastSequence: number
  readonly applied: number
  readonly purges: number
  readonly isRestored: boolean
  readonly held: readonly string[]
}

/** Starts a router and answers a way to wait for the first line that fits. */
function startRouter(endpoint: string, replayEndpoint: string) {
  const script = fileURLToPath(new URL('./warm-restart-child.case.ts', import.meta.url))
  const path = join(folder, 'events.snapshot')
  const child = spawn(process.execPath, ['--import', 'tsx', script, endpoint, replayEndpoint, path], {
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  children.push(child)
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]()
  const waitFor = async (fits: (line: Line) => boolean): Promise<Line> => {
    for (;;) {
      const { value, done } = await lines.next()
      if (done) throw new Error('the router ended')
      const line = JSON.parse(value) as Line
      if (fits(line)) return line
    }
  }
  return { child, waitFor }
}

it('is exact again after kill -9 under load, from its snapshot and the replay of what it missed', async () => {
  let draw = 7
  const random = () => (draw = (Math.imul(draw, 1_103_515_245) + 12_345) >>> 0) >>> 8
  const engine = new FakeRank(40, 60, random) // a ring of 60 batches: far less than the whole history
  const pub = new Publisher({ linger: 0 })
  const router = new Router({ linger: 0 })
  await pub.bind('tcp://127.0.0.1:*')
  await router.bind('tcp://127.0.0.1:*')
  const serving = serveReplay(router, engine)
  let now = 0
  const publish = async (requests: number) => {
    for (let index = 0; index < requests; index++) {
      const chain = Array.from({ length: 1 + (random() % 6) }, (_, depth) => (random() % 3) + 10 * depth)
      const batch = engine.request(chain, ++now)
      if (batch) await pub.send(['kv', sequenceFrame(batch.sequence), batch.payload])
    }
  }
  try {
    const first = startRouter(pub.lastEndpoint!, router.lastEndpoint!)
    await publish(5)
    await first.waitFor(() => true)
    while (engine.sequence < 200) {
      await publish(20)
      await first.waitFor((line) => line.lastSequence === engine.sequence - 1)
    }
    await publish(3)
    first.child.kill('SIGKILL')
    await publish(20)
    const second = startRouter(pub.lastEndpoint!, router.lastEndpoint!)
    const line = await second.waitFor((it) => it.lastSequence === engine.sequence - 1)
    expect(line).toMatchObject({ isRestored: true, purges: 0 })
    expect(line.applied).toBeLessThan(60)
    const truth = engine.reachable().map(String)
    expect(truth.length).toBeGreaterThan(10)
    expect([...line.held].sort()).toEqual(truth.sort())
  } finally {
    pub.close()
    router.close()
    await serving
  }
}, 60_000)

async function serveReplay(router: Router, engine: FakeRank): Promise<void> {
  for await (const [identity, , start] of router) {
    for (const { sequence, payload } of engine.replayFrom(Number(start!.readBigUInt64BE()))) {
      await router.send([identity!, '', 'kv', sequenceFrame(sequence), payload])
    }
    await router.send([identity!, '', '', Buffer.alloc(8, 255), ''])
  }
}

function sequenceFrame(sequence: number): Buffer {
  const frame = Buffer.alloc(8)
  frame.writeBigUInt64BE(BigInt(sequence))
  return frame
}
