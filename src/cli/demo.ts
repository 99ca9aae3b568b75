/** `warmroute demo`: simulated engines, two routers, the same chats through both, side by side. Needs nothing but Node. */
import { Command } from 'commander'
import { readerLeft } from './readers.js'
import { stopSignal } from './stop-signal.js'
import type { DemoFleet } from './demo/fleet.js'
import { demoModel, startFleet } from './demo/fleet.js'
import type { Sides } from './demo/screen.js'
import { pairSides, routingSides, Screen, scoreLine, scoreTable } from './demo/screen.js'
import { Traffic } from './demo/traffic.js'
import { count, port, positive } from './numbers.js'

interface DemoFlags {
  readonly seconds?: number
  readonly port: number
  readonly engines: number
  readonly users: number
  readonly disagg: boolean
}

const settleMs = 5_000

export function demoCommand(): Command {
  return new Command('demo')
    .description('See KV routing beside round robin on simulated engines: no GPU, no model, no network.')
    .option('--seconds <n>', 'end by itself after so long; without it Ctrl-C ends it', positive)
    .option('--port <port>', 'where the KV router listens; 0 takes a free port', port, 8080)
    .option('--engines <n>', 'simulated engines behind each router, vLLM and SGLang in turn', count, 4)
    .option('--users <n>', 'people who chat at the same time', count, 6)
    .option('--disagg', 'prefill and decode on different engines, beside engines that do both', false)
    .addHelpText('after', '\nExit status: 0 ended by itself or by a signal, 1 could not start, 2 a flag is wrong.')
    .action(runDemo)
}

async function runDemo(flags: DemoFlags): Promise<void> {
  const screen = new Screen(process.stdout)
  const stopped = Promise.race([stopSignal(), readerLeft(process.stdout).then(() => 'nobody looks' as const)])
  const { engines, disagg } = flags
  const sides = disagg ? pairSides : routingSides
  screen.say(...(disagg ? pairWords(engines) : routingWords(engines)), '')
  const fleets: DemoFleet[] = []
  let traffic: Traffic | undefined
  try {
    fleets.push(
      await startFleet({ policy: 'kv', isPaired: disagg, isVllmOnly: disagg, engines, port: flags.port, settleMs }),
    )
    fleets.push(
      await startFleet({ policy: disagg ? 'kv' : 'round-robin', isVllmOnly: disagg, engines, port: 0, settleMs }),
    )
    const firstAnswer = new Promise<void>((resolve) => {
      traffic = new Traffic({ urls: fleets.map(({ url }) => url), users: flags.users, onFirstAnswer: resolve })
    })
    if ((await Promise.race([firstAnswer, stopped])) === undefined) {
      screen.say(`First routed answer ${(performance.now() / 1000).toFixed(1)} s after the program started.`)
      invite(screen, fleets[0]!.url, flags)
      await show(screen, sides, traffic!, flags.seconds, stopped)
    }
  } finally {
    await traffic?.close()
    await Promise.all(fleets.map((fleet) => fleet.close()))
  }
  screen.say('', 'Everything is stopped.')
}

function routingWords(engines: number): string[] {
  return [
    `Warmroute demo: two routers, each with ${engines} simulated engines (vLLM and SGLang in turn), get the same chats.`,
    'One looks at KV caches, the other takes turns. All of it runs in this process.',
  ]
}

function pairWords(engines: number): string[] {
  const prefills = Math.ceil(engines / 2)
  return [
    `Warmroute demo: two routers, each with ${engines} simulated vLLM engines, get the same chats.`,
    `Behind one, ${prefills} engines only prefill and ${engines - prefills} only decode; behind the other each does both.`,
    'Prefills cost time to the first token when they wait for few engines; decodes are never held up by them.',
  ]
}

function invite(screen: Screen, url: string, { seconds, disagg }: DemoFlags): void {
  const body = JSON.stringify({ model: demoModel, messages: [{ role: 'user', content: 'Hello' }], max_tokens: 16 })
  screen.say(
    '',
    'Send it a request yourself; the x-warmroute-* headers say where it went:',
    `  curl -i ${url}/v1/chat/completions -H 'content-type: application/json' -d '${body}'`,
    'In front of real engines it is one command:',
    disagg
      ? '  npx warmroute serve prefill=http://gpu1:8000 decode=http://gpu2:8000'
      : '  npx warmroute serve http://gpu1:8000 http://gpu2:8000',
    seconds === undefined ? 'Ctrl-C ends the demo.' : `The demo ends after ${seconds} s.`,
    '',
  )
}

/** Draws until the time is over or somebody stops it; the whole table stands at the end either way. */
async function show(
  screen: Screen,
  sides: Sides,
  traffic: Traffic,
  seconds: number | undefined,
  stopped: Promise<unknown>,
): Promise<void> {
  const startedMs = performance.now()
  const elapsed = (): number => (performance.now() - startedMs) / 1000
  const draw = (): void => {
    const [one, other] = traffic.scores()
    if (screen.isLive) screen.draw(scoreTable(sides, one!, other!))
    else screen.say(scoreLine(sides, elapsed(), one!, other!))
  }
  const timer = setInterval(draw, screen.isLive ? 500 : 1_000)
  let end: NodeJS.Timeout | undefined
  const over = new Promise<void>((resolve) => {
    if (seconds !== undefined) end = setTimeout(resolve, 1000 * seconds)
  })
  await Promise.race([over, stopped])
  clearInterval(timer)
  clearTimeout(end)
  const [one, other] = traffic.scores()
  if (screen.isLive) screen.draw(scoreTable(sides, one!, other!))
  else screen.say('', ...scoreTable(sides, one!, other!))
}
