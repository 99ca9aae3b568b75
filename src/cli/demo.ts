/** `warmroute demo`: simulated engines, two routers, the same chats through both, side by side. Needs nothing but Node. */
import { Command } from 'commander'
import { stopSignal } from './stop-signal.js'
import type { DemoFleet } from './demo/fleet.js'
import { demoModel, startFleet } from './demo/fleet.js'
import { Screen, scoreLine, scoreTable } from './demo/screen.js'
import { Traffic } from './demo/traffic.js'
import { count, port, positive } from './numbers.js'

interface DemoFlags {
  readonly seconds?: number
  readonly port: number
  readonly engines: number
  readonly users: number
}

const settleMs = 5_000

export function demoCommand(): Command {
  return new Command('demo')
    .description('See KV routing beside round robin on simulated engines: no GPU, no model, no network.')
    .option('--seconds <n>', 'end by itself after so long; without it Ctrl-C ends it', positive)
    .option('--port <port>', 'where the KV router listens; 0 takes a free port', port, 8080)
    .option('--engines <n>', 'simulated engines behind each router, vLLM and SGLang in turn', count, 4)
    .option('--users <n>', 'people who chat at the same time', count, 6)
    .addHelpText('after', '\nExit status: 0 ended by itself or by a signal, 1 could not start.')
    .action(runDemo)
}

async function runDemo(flags: DemoFlags): Promise<void> {
  const screen = new Screen(process.stdout)
  const stopped = stopSignal()
  const { engines } = flags
  screen.say(
    `Warmroute demo: two routers, each with ${engines} simulated engines (vLLM and SGLang in turn), get the same chats.`,
    'One looks at KV caches, the other takes turns. All of it runs in this process.',
    '',
  )
  const fleets: DemoFleet[] = []
  let traffic: Traffic | undefined
  try {
    fleets.push(await startFleet({ policy: 'kv', engines, port: flags.port, settleMs }))
    fleets.push(await startFleet({ policy: 'round-robin', engines, port: 0, settleMs }))
    const firstAnswer = new Promise<void>((resolve) => {
      traffic = new Traffic({ urls: fleets.map(({ url }) => url), users: flags.users, onFirstAnswer: resolve })
    })
    if ((await Promise.race([firstAnswer, stopped])) === undefined) {
      screen.say(`First routed answer ${(performance.now() / 1000).toFixed(1)} s after the program started.`)
      invite(screen, fleets[0]!.url, flags.seconds)
      await show(screen, traffic!, flags.seconds, stopped)
    }
  } finally {
    await traffic?.close()
    await Promise.all(fleets.map((fleet) => fleet.close()))
  }
  screen.say('', 'Everything is stopped.')
}

function invite(screen: Screen, url: string, seconds: number | undefined): void {
  const body = JSON.stringify({ model: demoModel, messages: [{ role: 'user', content: 'Hello' }], max_tokens: 16 })
  screen.say(
    '',
    'Send it a request yourself; the x-warmroute-* headers say where it went:',
    `  curl -i ${url}/v1/chat/completions -H 'content-type: application/json' -d '${body}'`,
    'In front of real engines it is one command:',
    '  warmroute serve http://gpu1:8000 http://gpu2:8000',
    seconds === undefined ? 'Ctrl-C ends the demo.' : `The demo ends after ${seconds} s.`,
    '',
  )
}

/** Draws until the time is over or somebody stops it; the whole table stands at the end either way. */
async function show(
  screen: Screen,
  traffic: Traffic,
  seconds: number | undefined,
  stopped: Promise<unknown>,
): Promise<void> {
  const startedMs = performance.now()
  const elapsed = (): number => (performance.now() - startedMs) / 1000
  const draw = (): void => {
    const [kv, roundRobin] = traffic.scores()
    if (screen.isLive) screen.draw(scoreTable(kv!, roundRobin!))
    else screen.say(scoreLine(elapsed(), kv!, roundRobin!))
  }
  const timer = setInterval(draw, screen.isLive ? 500 : 1_000)
  let end: NodeJS.Timeout | undefined
  const over = new Promise<void>((resolve) => {
    if (seconds !== undefined) end = setTimeout(resolve, 1000 * seconds)
  })
  await Promise.race([over, stopped])
  clearInterval(timer)
  clearTimeout(end)
  const [kv, roundRobin] = traffic.scores()
  if (screen.isLive) screen.draw(scoreTable(kv!, roundRobin!))
  else screen.say('', ...scoreTable(kv!, roundRobin!))
}
