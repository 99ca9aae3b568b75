/**
 * `npm run soak:gateway -- [--seconds N | --minutes N] [--seed N]`, or `[seconds] [seed]`: mixed load on a gateway over
 * simulated engines, with clients that leave and workers that hang up, hang, refuse and restart; 60 seconds unless told.
 * Ends with an error if a request hangs, a booking stays, or memory grows.
 */
import { Agent, request } from 'node:http'
import { InProcessRouter } from '../src/routing/index.js'
import { createGateway } from '../src/server/index.js'
import type { SimEngine } from '../src/sim/index.js'
import { parseFaults, startSimEngine } from '../src/sim/index.js'
import { readSoakArguments, soakUsage } from './soak-arguments.js'

const asked = readSoakArguments(process.argv.slice(2))
if (asked.kind !== 'run') {
  console[asked.kind === 'help' ? 'log' : 'error'](asked.kind === 'help' ? soakUsage : `${asked.reason}\n${soakUsage}`)
  process.exit(asked.kind === 'help' ? 0 : 2)
}
const { seconds } = asked
let state = asked.seed
const clients = 24
const agent = new Agent({ keepAlive: true })
/** A request that takes longer than this hangs: every deadline below is shorter. */
const hungMs = 15_000

function below(limit: number): number {
  state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0
  return (state >>> 8) % limit
}

const engines: SimEngine[] = []
for (const [worker, engine] of (['vllm', 'sglang', 'vllm', 'sglang'] as const).entries())
  engines.push(
    await startSimEngine({ engine, worker, blockTokens: 16, speedup: 20, events: false, healthMs: 0, models: ['sim'] }),
  )
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
      workers: engines.map((engine, at) => ({
        id: BigInt(at + 1),
        url: engine.url,
        engine: at % 2 === 0 ? 'vllm' : 'sglang',
      })),
    },
  ],
})
const { url } = await gateway.listen()

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

const counts = { requests: 0, completed: 0, refused: 0, aborted: 0, broken: 0, hung: 0, restarts: 0, faults: 0 }
const started = Date.now()
const isOver = (): boolean => Date.now() - started > seconds * 1000
const memory: number[] = []
/** Time for which the loop stood still, and the longest of it. */
let lostMs = 0
let longestStallMs = 0
let beatAtMs = performance.now()
const heart = setInterval(() => {
  const now = performance.now()
  const late = now - beatAtMs - 50
  beatAtMs = now
  if (late < 50) return
  lostMs += late
  longestStallMs = Math.max(longestStallMs, late)
}, 50)

async function client(): Promise<void> {
  while (!isOver()) {
    const id = `soak-${++counts.requests}`
    const ask = questionOf()
    const seen: Seen = { isSlow: below(8) === 0, status: 0, text: '', state: 'asked' }
    const abort = new AbortController()
    const leaves = below(4) === 0 ? setTimeout(() => abort.abort(), below(60)) : undefined
    const stopWatch = afterOwnTime(hungMs, () => {
      counts.hung++
      const inside = ended.get(id) ?? 'still runs in the gateway'
      const client = { ...seen, text: seen.text.slice(-200), bytes: seen.text.length }
      console.error(JSON.stringify({ hung: id, ...ask, inside, client, workers: gateway.workers() }))
      abort.abort()
    })
    try {
      await exchange(url + ask.path, id, ask.body, abort.signal, seen)
      if (seen.status !== 200) counts.refused++
      else if (seen.text.includes('"WR_')) counts.broken++
      else counts.completed++
    } catch {
      if (abort.signal.aborted) counts.aborted++
      else counts.broken++
    } finally {
      clearTimeout(leaves)
      stopWatch()
    }
  }
}

/**
 * Calls back when this process has had so much time, not counting what others took: on a busy machine the loop stands still
 * for seconds, and what was not read meanwhile does not hang.
 */
function afterOwnTime(ms: number, act: () => void): () => void {
  let lost = lostMs
  let timer = setTimeout(check, ms)
  function check(): void {
    const sinceThen = lostMs - lost
    lost = lostMs
    if (sinceThen > 0) timer = setTimeout(check, sinceThen)
    else act()
  }
  return () => clearTimeout(timer)
}

/** What the client saw of its answer, for the case that it hangs. */
interface Seen {
  readonly isSlow: boolean
  status: number
  text: string
  state: string
}

/** With `node:http`: a `fetch` that is left in the middle of a slow read was seen to wait for ever, with any server. */
function exchange(address: string, id: string, body: object, signal: AbortSignal, seen: Seen): Promise<void> {
  return new Promise((resolve, reject) => {
    const headers = { 'content-type': 'application/json', 'x-request-id': id }
    const sent = request(address, { method: 'POST', headers, agent, signal }, (response) => {
      seen.status = response.statusCode ?? 0
      seen.state = 'answered'
      response.setEncoding('utf8')
      response.on('data', (part: string) => {
        seen.text += part
        if (!seen.isSlow) return
        seen.state = 'paused'
        response.pause()
        setTimeout(() => {
          seen.state = 'resumed'
          response.resume()
        }, below(10))
      })
      response.on('end', resolve)
      response.on('error', reject)
      response.on('close', () => reject(new Error('closed before its end'))) // without effect behind `end`
    })
    sent.on('error', reject)
    sent.end(JSON.stringify(body))
  })
}

interface Question {
  readonly path: string
  readonly body: Record<string, unknown>
}

function questionOf(): Question {
  const system = `system ${below(8)} `.repeat(10 + below(200))
  const content = `question ${below(1000)}`
  const common = { model: 'sim', stream: below(2) === 0, max_tokens: 1 + below(40) }
  const messages = [{ role: 'user', content }]
  switch (below(8)) {
    case 0:
    case 1:
      return { path: '/v1/completions', body: { ...common, prompt: system + content } }
    case 2:
      return { path: '/v1/messages', body: { ...common, system, messages } }
    case 3:
      return { path: '/v1/responses', body: { ...common, instructions: system, input: content } }
    case 4:
      return { path: '/tokenize', body: { model: 'sim', prompt: system + content } }
    default:
      return {
        path: '/v1/chat/completions',
        body: { ...common, messages: [{ role: 'system', content: system }, ...messages] },
      }
  }
}

async function weather(): Promise<void> {
  const kinds = ['hang_before_headers', 'hang_mid_stream', 'reset_mid_stream', 'status', 'abort_streams', 'trickle']
  while (!isOver()) {
    await new Promise((resolve) => setTimeout(resolve, 500 + below(1_000)))
    const engine = engines[below(engines.length)]!
    if (below(4) === 0) {
      counts.restarts++
      await engine.restart(100 + below(400))
    } else {
      counts.faults++
      engine.arm(parseFaults([{ fault: kinds[below(kinds.length)], for_ms: 300, share: 0.5, ms: 20 }]))
    }
    memory.push(Math.round(process.memoryUsage.rss() / 1048576))
  }
  for (const engine of engines) engine.clearFaults()
}

await Promise.all([weather(), ...Array.from({ length: clients }, client)])
while (gateway.inFlight > 0) await new Promise((resolve) => setTimeout(resolve, 10))
const held = (await router.loads()).reduce((sum, load) => sum + load.activeRequests + load.activePrefillTokens, 0)
clearInterval(heart)
agent.destroy()
await gateway.close()
const sockets = gateway.engineConnections
await router.close()
for (const engine of engines) await engine.close()
const quarter = Math.max(1, Math.floor(memory.length / 4))
const mean = (values: readonly number[]): number => Math.round(values.reduce((sum, it) => sum + it, 0) / values.length)
const rss = {
  second_quarter_mb: mean(memory.slice(quarter, 2 * quarter)),
  last_quarter_mb: mean(memory.slice(-quarter)),
}
console.log(
  JSON.stringify({
    seconds,
    ...counts,
    bookings_left: held,
    sockets_left: sockets,
    ...rss,
    longest_stall_ms: Math.round(longestStallMs),
  }),
)
const grew = rss.last_quarter_mb > rss.second_quarter_mb * 1.5
if (counts.hung > 0 || held > 0 || sockets > 0 || grew || counts.completed === 0) process.exitCode = 1
