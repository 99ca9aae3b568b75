/** Looks for requests that hold the loop: of every route at random, with a model's files and asked of engines. */
import { sources, startChild } from '../../bench/gateway/children.js'
import { shownHeld } from '../../bench/gateway/use.js'
import type { BombedModel } from '../../bench/tokens/bombs.js'
import { bombedModels } from '../../bench/tokens/bombs.js'
import type { LongestStretch } from '../../bench/loop-watch.js'
import { longestTurn, LoopWatch } from '../../bench/loop-watch.js'
import { randomFrom } from '../../bench/tokens/texts.js'
import type { Body, Route } from './chat/request.js'
import { requestsAtRandom } from './fuzz-requests.case.js'
import { TokenService } from './token-service.js'

/** Not GPT-2, which has no template. */
const models: readonly BombedModel[] = ['qwen3', 'llama3', 'deepseek_v3', 'tinyllama']
const routes = Object.keys(requestsAtRandom) as readonly Route[]
/** The compiler needs some. */
const firstCases = 24
const deadlineMs = 20_000
/** A request is timed again that took so long: whoever else wants the machine is seldom there twice. */
const timedAgainMs = 8
/** Twice what a gateway hands over parsed. */
const parsedBytesMax = 64 << 10

interface Timed {
  readonly longest: LongestStretch
  readonly shown: string
}

/** The longest turns of each model and engine, with what made them. `only`: of one of them. */
export async function fuzzStalls(seed: number, cases: number, only?: string): Promise<string> {
  // In a process of their own: what engines do is not the loop's.
  const engines = await startChild<{ urls: Readonly<Record<string, string>> }>(sources, './asked-engines.child.ts')
  const { urls } = engines.first
  const targets = [...models, ...Object.keys(urls)].filter((name) => only === undefined || name === only)
  const watch = new LoopWatch()
  const lines: string[] = []
  for (const [index, target] of targets.entries()) {
    const service = new TokenService({ threads: 1 })
    const dialect = target === 'sglang' ? 'sglang' : 'vllm'
    const url = urls[target]
    const { source } = await service.setModel(
      target,
      url === undefined ? { path: bombedModels[target as BombedModel].folder } : { engine: { url, dialect } },
    )
    if (source === 'none') throw new Error(`no tokens of ${target}`)
    const turns = await timeCases(service, target, randomFrom(seed * 100 + index), watch, cases / targets.length)
    for (const { longest, shown } of turns.sort((a, b) => b.longest.busyMs - a.longest.busyMs).slice(0, 3)) {
      const { busyMs, collectedMs, faults } = longest
      lines.push(`${target} ${busyMs.toFixed(1)} ms (collector ${collectedMs.toFixed(1)}, ${faults} pages): ${shown}`)
    }
    const { longest, shown } = turns.reduce((most, turn) => (turn.longest.held.ms > most.longest.held.ms ? turn : most))
    lines.push(`${target} by the clock ${shownHeld(longest)}: ${shown}`)
    await service.close()
  }
  engines.child.disconnect()
  return lines.join('\n')
}

async function timeCases(
  service: TokenService,
  model: string,
  random: ReturnType<typeof randomFrom>,
  watch: LoopWatch,
  cases: number,
): Promise<Timed[]> {
  const turns: Timed[] = []
  for (let at = 0; at < cases; at++) {
    const route = routes[random(routes.length)]!
    const request = requestsAtRandom[route](random)
    const isParsed = random(4) > 0
    const time = async (salt: number): Promise<Timed> => {
      const raw = Buffer.from(JSON.stringify({ model: `${model}${salt}`, ...request }))
      const body = isParsed && raw.length < parsedBytesMax ? (JSON.parse(raw.toString()) as Body) : undefined
      let became = ''
      const longest = await longestTurn(watch, async () => {
        const said = await service.tokenizeRequest(model, route, body, { raw, deadlineMs })
        became = 'loadOnly' in said ? said.loadOnly : said.source
      })
      const shown = `case ${at}, ${route}, ${body ? 'parsed' : 'unread'}, ${became}, ${raw.length} bytes, ${raw.toString('utf8', 0, 80)}`
      return { longest, shown }
    }
    // Another name of the model: what an engine said of the first is remembered.
    let timed = await time(0)
    for (let again = 1; again < 3 && timed.longest.busyMs > timedAgainMs; again++) {
      const other = await time(again)
      if (other.longest.busyMs < timed.longest.busyMs) timed = other
    }
    if (at >= firstCases) turns.push(timed)
  }
  return turns
}
