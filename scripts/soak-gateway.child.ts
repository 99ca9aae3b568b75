/**
 * The gateway of `soak-gateway.ts`, in a process of its own: what its memory does is then not hidden by the clients and the
 * simulated engines. Asked over the channel for its state, and ended by it.
 */
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { setCollector } from '../src/cli/collector.js'
import { InProcessRouter } from '../src/routing/index.js'
import { createGateway } from '../src/server/index.js'

/** What the soak asks for. */
export type SoakQuestion =
  | { readonly ask: 'state' }
  | { readonly ask: 'ended'; readonly id: string }
  | { readonly ask: 'close' }

/** What it holds now. The collector has run just before, so that the heap is what is really kept. */
export interface SoakState {
  readonly rssMb: number
  readonly heapMb: number
  readonly inFlight: number
  readonly bookings: number
  readonly sockets: number
}

setCollector() // as the command does
setFlagsFromString('--expose-gc')
const collect = runInNewContext('gc') as () => void

const router = await InProcessRouter.create({ blockSize: 16, config: { useKvEvents: false } })
const gateway = createGateway({
  listen: { port: 0 },
  log: {
    debug: (fields, sentence) => sentence === 'a request ended' && noteEnded(fields),
    info() {},
    warn() {},
  },
  deadlines: { noProgressMs: 2_000, totalMs: 8_000 },
  health: { intervalMs: 500, timeoutMs: 1_000, quarantineMs: [100, 1_000] },
  models: [
    {
      name: 'sim',
      blockSize: 16,
      router,
      workers: (JSON.parse(process.argv[2]!) as string[]).map((url, at) => ({
        id: BigInt(at + 1),
        url,
        engine: at % 2 === 0 ? 'vllm' : 'sglang',
      })),
    },
  ],
})

/** How the last requests ended inside the gateway: tells a hung gateway from a hung client. */
const ended = new Map<string, unknown>()
function noteEnded(fields: Record<string, unknown>): void {
  ended.set(String(fields['request_id']), {
    status: fields['status'],
    ms: fields['duration_ms'],
    worker: fields['worker'],
  })
  if (ended.size > 4096) ended.delete(ended.keys().next().value!)
}

async function stateNow(): Promise<SoakState> {
  collect()
  const { rss, heapUsed } = process.memoryUsage()
  const loads = await router.loads()
  return {
    rssMb: rss / 1048576,
    heapMb: heapUsed / 1048576,
    inFlight: gateway.inFlight,
    bookings: loads.reduce((sum, load) => sum + load.activeRequests + load.activePrefillTokens, 0),
    sockets: gateway.engineConnections,
  }
}

async function answer(question: SoakQuestion): Promise<unknown> {
  if (question.ask === 'ended')
    return { inside: ended.get(question.id) ?? 'still runs in the gateway', workers: gateway.workers() }
  if (question.ask === 'close') await gateway.close()
  return stateNow()
}

process.on('message', (question: SoakQuestion) => void answer(question).then((it) => process.send!(it)))
process.on('disconnect', () => process.exit())
const { url } = await gateway.listen()
process.send!(url)
