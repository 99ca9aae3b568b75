/**
 * `npm run soak:gateway -- [--seconds N | --minutes N] [--seed N]`, or `[seconds] [seed]`: mixed load on a gateway over
 * simulated engines, with clients that leave and workers that hang up, hang, refuse and restart; 60 seconds unless told.
 * Ends with an error if a request hangs, a booking stays, or the memory of the gateway's process grows.
 */
import { Agent, request } from 'node:http'
import type { SimEngine } from '../src/sim/index.js'
import { parseFaults, startSimEngine } from '../src/sim/index.js'
import { ask, startChild } from '../bench/gateway/children.js'
import { readSoakArguments, soakUsage } from './soak-arguments.js'
import type { SoakQuestion, SoakState } from './soak-gateway.child.js'

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
const { child: gateway, first: url } = await startChild<string>(
  { folder: new URL('./', import.meta.url), flags: ['--import', 'tsx'] },
  'soak-gateway.child.ts',
  engines.map((engine) => engine.url),
)

const counts = { requests: 0, completed: 0, refused: 0, aborted: 0, broken: 0, hung: 0, restarts: 0, faults: 0 }
const started = Date.now()
const isOver = (): boolean => Date.now() - started > seconds * 1000
const memory: SoakState[] = []
let lastAnswer: Promise<unknown> = Promise.resolve()
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
    const question = questionOf()
    const seen: Seen = { isSlow: below(8) === 0, status: 0, text: '', state: 'asked' }
    const abort = new AbortController()
    const leaves = below(4) === 0 ? setTimeout(() => abort.abort(), below(60)) : undefined
    const stopWatch = afterOwnTime(hungMs, () => {
      counts.hung++
      const client = { ...seen, text: seen.text.slice(-200), bytes: seen.text.length }
      void askGateway<object>({ ask: 'ended', id }).then((it) =>
        console.error(JSON.stringify({ hung: id, ...question, ...it, client })),
      )
      abort.abort()
    })
    try {
      await exchange(url + question.path, id, question.body, abort.signal, seen)
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
  }
  for (const engine of engines) engine.clearFaults()
}

async function watchMemory(): Promise<void> {
  const everyMs = Math.min(5_000, (seconds * 1000) / 40)
  while (!isOver()) {
    await new Promise((resolve) => setTimeout(resolve, everyMs))
    memory.push(await askGateway<SoakState>({ ask: 'state' }))
  }
}

/** One question after the other: the channel does not say which answer belongs to which. */
function askGateway<T>(question: SoakQuestion): Promise<T> {
  const answer = lastAnswer.then(() => ask<T>(gateway, question))
  lastAnswer = answer
  return answer
}

await Promise.all([weather(), watchMemory(), ...Array.from({ length: clients }, client)])
let left = await askGateway<SoakState>({ ask: 'state' })
for (const deadline = Date.now() + hungMs; left.inFlight > 0 && Date.now() < deadline; )
  left = await askGateway<SoakState>({ ask: 'state' })
clearInterval(heart)
agent.destroy()
const closed = await askGateway<SoakState>({ ask: 'close' })
gateway.disconnect()
for (const engine of engines) await engine.close()
const quarter = Math.max(1, Math.floor(memory.length / 4))
const mean = (values: readonly number[]): number => Math.round(values.reduce((sum, it) => sum + it, 0) / values.length)
const quarters = (of: 'rssMb' | 'heapMb'): number[] =>
  [0, 1, 2, 3].map((at) => mean(memory.slice(at * quarter, (at + 1) * quarter).map((it) => it[of])))
const rss = quarters('rssMb')
const heap = quarters('heapMb')
console.log(
  JSON.stringify({
    seconds,
    ...counts,
    in_flight_left: left.inFlight,
    bookings_left: left.bookings,
    sockets_left: closed.sockets,
    rss_mb_by_quarter: rss,
    heap_mb_by_quarter: heap,
    longest_stall_ms: Math.round(longestStallMs),
  }),
)
/** Caches fill in the first half; what grows behind that, grows for ever. */
const grew = rss[3]! > rss[1]! * 1.15 || heap[3]! > heap[1]! * 1.15
const leftovers = left.inFlight + left.bookings + closed.sockets
if (counts.hung > 0 || leftovers > 0 || grew || counts.completed === 0) process.exitCode = 1
