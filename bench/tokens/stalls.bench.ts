/** How long the loop is held while requests are tokenised, by the service that a gateway has, with its threads. */
import { createBlockHasher, createHashScheme } from '../../src/core/hashing/index.js'
import type { Body, Route } from '../../src/tokens/chat/request.js'
import { TokenService } from '../../src/tokens/token-service.js'
import { Tokens } from '../../src/tokens/tokens.js'
import type { Bench, BenchContext } from '../harness.js'
import { defineBench, summarise } from '../harness.js'
import type { LongestStretch } from '../loop-watch.js'
import { longestTurn, LoopWatch } from '../loop-watch.js'
import type { BombedModel } from './bombs.js'
import { bombedModels, chatBombs, parsedBombs, textBombs } from './bombs.js'
import type { Message } from './texts.js'
import { conversation, prose, textBytes } from './texts.js'

const scheme = createHashScheme({ blockSize: 16 })
const hasher = createBlockHasher()
const names = Object.keys(bombedModels) as BombedModel[]

/** What is longer is explained on the spot: seen once, nobody could tell later. */
const longMs = 8

interface Phase {
  /** The compiler needs the first two. */
  readonly rounds: number
  /** The same shape each round, and never the same text. What it is given is made before the clock starts. */
  readonly prepare: (round: number) => () => Promise<number>
}

async function stalls(context: BenchContext): Promise<void> {
  const service = new TokenService({ threads: 1 })
  for (const name of names) await service.setModel(name, { path: bombedModels[name].folder })
  const phases = {
    ...usualPhases(context, service),
    ...bombPhases(context, service),
    ...parsedPhases(context, service),
  }
  const only = process.env['BENCH_ONLY']
  const more = Number(process.env['BENCH_ROUNDS'] ?? 0)
  const watch = new LoopWatch()
  let sum = 0
  let worst = 0
  for (const [name, { rounds, prepare }] of Object.entries(phases)) {
    if (only !== undefined && !name.includes(only)) continue
    const turns: number[] = []
    for (let round = 0; round < context.size(1, Math.max(rounds, more)); round++) {
      const work = prepare(round)
      const longest = await longestTurn(watch, async () => (sum += await work()))
      turns.push(longest.busyMs)
      if (!context.isSmoke && longest.busyMs > longMs) console.error(`  ${name}, round ${round}: ${told(longest)}`)
    }
    const settled = turns.slice(context.isSmoke ? 0 : 2)
    const { median } = summarise(settled)
    if (!context.isSmoke)
      console.error(
        `  ${name}: ${median.toFixed(2)} ms, at most ${Math.max(...settled).toFixed(2)}, first ${turns[0]!.toFixed(2)} ms`,
      )
    worst = Math.max(worst, median)
  }
  watch.stop()
  await service.close()
  context.report({ id: 'tokens.loop_stall_max_ms', value: worst, unit: 'ms', spread: 0, checksum: String(sum) })
}

function told({ busyMs, collectedMs, faults }: LongestStretch): string {
  return `${busyMs.toFixed(2)} ms, of which the collector had ${collectedMs.toFixed(2)} by the clock, with ${faults} new pages`
}

/** As a gateway asks: what is long is hashed a part at a time, and a heavy body is left to a thread (`raw`). */
async function hashed(
  service: TokenService,
  model: BombedModel,
  route: Route,
  asked: { readonly body?: Body; readonly raw?: Uint8Array },
): Promise<number> {
  const tokens = await service.tokenizeRequest(model, route, asked.body, { raw: asked.raw, deadlineMs: 30_000 })
  if (!(tokens instanceof Tokens)) return 0
  await tokens.hashAhead(scheme, hasher)
  return tokens.blockHashes(scheme, hasher).count
}

function usualPhases(context: BenchContext, service: TokenService): Readonly<Record<string, Phase>> {
  const size = context.size(20_000, textBytes)
  const megabyte = context.size(60_000, 1_000_000)
  const base = prose(size, 100)
  const usual = (prepare: Phase['prepare']): Phase => ({ rounds: 11, prepare })
  const complete = (model: BombedModel, promptOf: (round: number) => string): Phase =>
    usual((round) => {
      const body = JSON.parse(JSON.stringify({ prompt: promptOf(round) })) as Body // its text is in one piece, as a client's is
      return () => hashed(service, model, 'completions', { body })
    })
  const chat = (messagesOf: (round: number) => readonly Message[]): Phase =>
    usual((round) => {
      const messages = messagesOf(round)
      return () => hashed(service, 'qwen3', 'chat', { body: { messages } })
    })
  return {
    'cold, Qwen3': complete('qwen3', (round) => prose(size, 100 + round)),
    'cold, TinyLlama': complete('tinyllama', (round) => prose(size, 100 + round)),
    'just short enough for the loop': complete('qwen3', (round) => prose(47_000, 300 + round)),
    'shared, Qwen3': complete('qwen3', (round) => base.slice(0, size * 0.9) + prose(size / 10, 400 + round)),
    'a million tokens': complete('qwen3', (round) => `${'! '.repeat(megabyte / 2)}${round}`),
    'four megabytes of words': complete('qwen3', (round) => `${prose(megabyte / 10, 800).repeat(40)}${round}`),
    'two million Chinese characters': complete('qwen3', (round) => `${'好你世界，'.repeat(megabyte / 2.5)}${round}`),
    'a chat, first time': chat((round) => conversation(context.size(6, 42), 900 + round)),
    'two thousand messages': chat((round) => conversation(context.size(50, 2000), 50 + round, 20)),
  }
}

/** A megabyte each, for each tokenizer, and as much of each text as the loop tries to encode by itself. */
function bombPhases(context: BenchContext, service: TokenService): Readonly<Record<string, Phase>> {
  const size = context.size(2_000, 1_000_000)
  const phases: Record<string, Phase> = {}
  const add = (model: BombedModel, route: Route, name: string, bodyOf: (round: number) => unknown): void => {
    phases[`${model}: ${name}`] = {
      rounds: 5,
      prepare: (round) => {
        const raw = Buffer.from(JSON.stringify(bodyOf(round)))
        return () => hashed(service, model, route, { raw })
      },
    }
  }
  for (const model of names) {
    for (const [name, make] of Object.entries(textBombs(model))) {
      add(model, 'completions', `${name}, short`, (round) => ({ prompt: make(Math.min(size, 47_000), round) }))
      add(model, 'completions', name, (round) => ({ prompt: make(size, round) }))
    }
    for (const name of Object.keys(chatBombs(1000, 0)))
      add(model, 'chat', name, (round) => chatBombs(size, round)[name])
  }
  return phases
}

/** Four megabytes each, parsed. JSON has made the texts: one that was joined of others would be put together on the way. */
function parsedPhases(context: BenchContext, service: TokenService): Readonly<Record<string, Phase>> {
  const size = context.size(20_000, 4_000_000)
  const phases: Record<string, Phase> = {}
  for (const model of ['deepseek_v3', 'qwen3'] as const)
    for (const name of Object.keys(parsedBombs(1000, 0)))
      phases[`${model}, parsed: ${name}`] = {
        rounds: 5,
        prepare: (round) => {
          const { route, body } = parsedBombs(size, round)[name]!
          const parsed = JSON.parse(JSON.stringify(body)) as Body
          ;(globalThis as { gc?: () => void }).gc?.() // whoever parsed it has up to 8 ms of collecting for it ahead, whatever comes then
          return () => hashed(service, model, route, { body: parsed })
        },
      }
  return phases
}

export const benches: Bench[] = [
  defineBench(
    'tokens.stalls',
    'How long is the loop held by any of these, and by texts that are meant to hurt?',
    stalls,
  ),
]
