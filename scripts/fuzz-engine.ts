/**
 * `npm run fuzz:engine -- URL --model NAME --tokenizer FOLDER [--cases N] [--seed S] [--only ROUTE]`: what `vllm launch render`, or a vLLM
 * with `--enable-scale-out`, makes of requests at random, beside what we make of them with the same files. Prints a ledger entry, and the
 * smallest requests that have other ids; fails if there are any. `--show-load-only` names requests that the engine takes and we do not.
 */
import { parseArgs } from 'node:util'
import type { Route } from '../src/tokens/chat/request.js'
import type { AskEngine } from '../src/tokens/fuzz-engine.case.js'
import { fuzzEngine } from '../src/tokens/fuzz-engine.case.js'
import { TokenService } from '../src/tokens/token-service.js'

const { values: flags, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    model: { type: 'string' },
    tokenizer: { type: 'string' },
    cases: { type: 'string', default: '1000' },
    seed: { type: 'string', default: '1' },
    only: { type: 'string' },
    'show-load-only': { type: 'boolean', default: false },
  },
})
const { model, tokenizer, only } = flags
const url = positionals[0]
if (url === undefined || model === undefined || tokenizer === undefined) {
  throw new Error('npm run fuzz:engine -- URL --model NAME --tokenizer FOLDER')
}
const paths: Readonly<Record<Route, string>> = {
  chat: '/v1/chat/completions/render',
  completions: '/v1/completions/render',
  responses: '/v1/responses/render',
  messages: '/v1/messages/render',
}
const deadlineMs = 60_000

interface Rendered {
  readonly token_ids: readonly number[]
}

const post = (route: Route, json: string): Promise<Response> =>
  fetch(new URL(paths[route], url), {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: json,
    signal: AbortSignal.timeout(deadlineMs),
  })

const ask: AskEngine = async (route, json) => {
  const response = await post(route, json).catch(() => post(route, json)) // it may just have closed an idle connection
  const answer = await response.text()
  if (isNoRenderer(response.status, answer)) throw new Error(`${response.status} ${answer.slice(0, 500)}`)
  if (!response.ok) return undefined
  const rendered = JSON.parse(answer) as Rendered | readonly Rendered[]
  return (Array.isArray(rendered) ? (rendered as readonly Rendered[]) : [rendered as Rendered]).map(
    (it) => it.token_ids,
  )
}

/** It would refuse everything. */
function isNoRenderer(status: number, answer: string): boolean {
  return status === 403 || (status === 404 && answer.includes('Not Found'))
}

const service = new TokenService({ threads: 1 })
const { source } = await service.setModel(model, { path: tokenizer })
if (source === 'none') throw new Error(`no tokenizer in ${tokenizer}`)
const cases = Number(flags.cases)
const started = Date.now()
const { counts, different } = await fuzzEngine({
  model,
  seed: Number(flags.seed),
  cases,
  ask,
  tokenize: (route, body, raw) => service.tokenizeRequest(model, route, body, { raw, deadlineMs }),
  ...(only === undefined ? {} : { routes: [only as Route] }),
  ...(flags['show-load-only'] && {
    onLoadOnly: (route, { loadOnly, detail }, json) => console.log(`${route} ${loadOnly}, ${detail}: ${json}`),
  }),
})
await service.close()
for (const { route, how, json } of different) console.log(`${route}: ${how}\n  ${json}`)
console.log(
  JSON.stringify({
    what: `tokens: ids equal a running vLLM's on requests at random, ${model}`,
    command: `npm run fuzz:engine -- URL --model ${model} --tokenizer FOLDER --cases ${cases} --seed ${flags.seed}${only === undefined ? '' : ` --only ${only}`}`,
    seeds: flags.seed,
    cases: cases * Object.keys(counts).length,
    result: counts,
    seconds: Math.round((Date.now() - started) / 1000),
  }),
)
if (different.length > 0) process.exitCode = 1
