/**
 * Looks whether a real prefill server and a real decode server of vLLM (NIXL pull) say through the gateway what one of them
 * says alone, and that a decode which would be late is not sent. Give the model random weights that are not near zero:
 * otherwise wrong KV does not show.
 *
 *   tsx scripts/real-pair.ts http://127.0.0.1:8211 http://127.0.0.1:8212 [requests]
 *
 * Prints a table; exits with 1 when something differs.
 */
import { setTimeout as pause } from 'node:timers/promises'
import { InProcessRouter, signalOf } from '../src/routing/index.js'
import type { RouterPort } from '../src/routing/index.js'
import { createGateway } from '../src/server/index.js'
import type { WorkerSpec } from '../src/server/index.js'

const [prefillUrl = '', decodeUrl = '', requestsText = '40'] = process.argv.slice(2)
const blockSize = 32
/** vLLM's lease is 30 s; a decode that waits this long for its turn is late. */
const lateMs = 36_000

interface Answer {
  readonly text: string
  readonly logprobs: readonly number[]
  readonly headers: Headers
}

let seed = 20_261_115
function draw(below: number): number {
  seed = (seed * 1_103_515_245 + 12_345) % 2 ** 31
  return seed % below
}

function newPrompt(): number[] {
  return Array.from({ length: 8 + draw(500) }, () => 300 + draw(30_000))
}

async function complete(url: string, body: object): Promise<Answer> {
  const response = await fetch(`${url}/v1/completions`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ model: 'tiny', temperature: 0, max_tokens: 8, ignore_eos: true, logprobs: 1, ...body }),
  })
  if (response.status !== 200) throw new Error(`${response.status} ${await response.text()}`)
  const answer = (await response.json()) as { choices: { text: string; logprobs: { token_logprobs: number[] } }[] }
  const { text, logprobs } = answer.choices[0]!
  return { text, logprobs: logprobs.token_logprobs, headers: response.headers }
}

const isSame = (a: Answer, b: Answer): boolean =>
  a.text === b.text && a.logprobs.every((value, at) => Math.abs(value - b.logprobs[at]!) < 1e-4)
const isEqual = (a: Answer, b: Answer): boolean => a.text === b.text && a.logprobs.join() === b.logprobs.join()

/** What one server says alone, from a cache that nobody else wrote to. */
let salts = 0
const alone = (prompt: number[], more: object = {}): Promise<Answer> =>
  complete(prefillUrl, { prompt, cache_salt: `alone-${process.pid}-${++salts}`, ...more })

async function sample(url: string, name: string): Promise<number> {
  const text = await (await fetch(`${url}/metrics`)).text()
  const lines = text.split('\n').filter((line) => line.startsWith(name))
  return lines.reduce((sum, line) => sum + Number(line.slice(line.lastIndexOf(' ') + 1)), 0)
}

async function main(): Promise<void> {
  let waitMs = 0
  const delayed = (router: RouterPort): RouterPort => {
    const route = router.route.bind(router)
    router.route = async (request) => {
      const ms = waitMs
      waitMs = 0
      const signal = signalOf(request.signal)
      if (ms > 0) await pause(ms, undefined, signal ? { signal } : {}).catch(() => undefined)
      return route(request)
    }
    return router
  }
  const newRouter = (): Promise<InProcessRouter> =>
    InProcessRouter.create({ blockSize, config: { useKvEvents: false } })
  const worker = (id: bigint, url: string, role: 'prefill' | 'decode'): WorkerSpec => ({
    id,
    url,
    engine: 'vllm',
    role,
  })
  const gateway = createGateway({
    listen: { port: 0 },
    models: [
      {
        name: 'tiny',
        blockSize,
        router: delayed(await newRouter()),
        disagg: { enforce: true, openPrefill: newRouter },
        workers: [worker(1n, prefillUrl, 'prefill'), worker(2n, decodeUrl, 'decode')],
      },
    ],
  })
  const { url } = await gateway.listen()
  const rows: [what: string, seen: string, isRight: boolean][] = []
  const count = Number(requestsText)

  let equal = 0
  let same = 0
  let split = 0
  for (let at = 0; at < count; at++) {
    const prompt = newPrompt()
    const control = await alone(prompt)
    const paired = await complete(url, { prompt })
    if (isEqual(control, paired)) equal++
    if (isSame(control, paired)) same++
    if (paired.headers.get('x-warmroute-prefill-worker-id') === '1') split++
  }
  rows.push(['prefilled on one server, decoded on the other', `${split} of ${count}`, split === count])
  rows.push([
    'in time: text and logprobs as one server alone, to the last digit',
    `${equal} of ${count}`,
    same === count,
  ])

  const lateReadsBefore = await sample(prefillUrl, 'vllm:nixl_num_notifications_after_expiry')
  const late = newPrompt().slice(0, 200)
  const lateControl = await alone(late)
  waitMs = lateMs
  const lateStartedMs = performance.now()
  const latePaired = complete(url, { prompt: late })
  await pause(lateMs - 4_000)
  for (let at = 0; at < 60; at++) await complete(prefillUrl, { prompt: newPrompt(), max_tokens: 1 }) // its blocks are given away
  const lateAnswer = await latePaired
  const missed =
    (await (await fetch(`${url}/metrics`)).text()).match(/lease_missed_total\{model="tiny"\} (\d+)/)?.[1] ?? '0'
  rows.push([
    `a decode held back ${Math.round((performance.now() - lateStartedMs) / 1000)} s: prefills made again`,
    missed,
    missed === '1',
  ])
  rows.push([
    'its answer as one server alone',
    isEqual(lateControl, lateAnswer) ? 'equal' : 'different',
    isSame(lateControl, lateAnswer),
  ])
  const after = await complete(decodeUrl, { prompt: late })
  rows.push([
    'the decode server’s cache afterwards',
    isSame(lateControl, after) ? 'right' : 'poisoned',
    isSame(lateControl, after),
  ])

  const left = newPrompt()
  waitMs = 20_000
  const client = new AbortController()
  const leaving = fetch(`${url}/v1/completions`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ model: 'tiny', prompt: left, max_tokens: 8 }),
    signal: client.signal,
  }).catch(() => undefined)
  await pause(3_000)
  const heldBefore = await sample(prefillUrl, 'vllm:kv_cache_usage_perc')
  client.abort()
  await leaving
  await pause(3_000)
  const heldAfter = await sample(prefillUrl, 'vllm:kv_cache_usage_perc')
  rows.push([
    'a client that leaves between the legs: share of KV in use on the prefill server, before and 3 s after',
    `${heldBefore.toFixed(4)} -> ${heldAfter.toFixed(4)}`,
    heldBefore > 0 && heldAfter === 0,
  ])
  const lateReads = (await sample(prefillUrl, 'vllm:nixl_num_notifications_after_expiry')) - lateReadsBefore
  rows.push(['reads after a lease, by the prefill server’s own count', String(lateReads), lateReads === 0])
  const up = (await fetch(`${decodeUrl}/health`)).status
  const stray = await complete(url, {
    prompt: left,
    kv_transfer_params: { do_remote_prefill: true, do_remote_decode: false },
  })
  rows.push(['a client’s own do_remote_prefill without blocks', `answered, decode server ${up}`, stray.text !== ''])

  await gateway.close()
  for (const [what, seen, isRight] of rows) console.log(`| ${what} | ${seen} | ${isRight ? 'right' : 'WRONG'} |`)
  process.exitCode = rows.every(([, , isRight]) => isRight) ? 0 : 1
}

await main()
