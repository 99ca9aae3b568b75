/** Tokenising: cold, shared, chats. */
import { Template as LibraryTemplate } from '@huggingface/jinja'
import { createBlockHasher, createHashScheme } from '../../src/core/hashing/index.js'
import { loadModel } from '../../src/tokens/model/loaded-model.js'
import type { LoadedModel } from '../../src/tokens/model/loaded-model.js'
import { ModelTokens } from '../../src/tokens/model/model-tokens.js'
import { Encoder } from '../../src/tokens/encode/encoder.js'
import { Template } from '../../src/tokens/template/template.js'
import { TokenPool } from '../../src/tokens/pool/pool.js'
import type { Body } from '../../src/tokens/chat/request.js'
import type { Value } from '../../src/tokens/template/values.js'
import type { Tokens } from '../../src/tokens/tokens.js'
import type { EncoderPlan } from '../../src/tokens/vocabulary/plan.js'
import { viewVocabulary } from '../../src/tokens/vocabulary/vocabulary.js'
import type { Bench, BenchContext } from '../harness.js'
import { defineBench, summarise } from '../harness.js'
import type { Message } from './texts.js'
import { conversation, prose, textBytes, tinyllamaFolder, tokenizerFolder } from './texts.js'

const scheme = createHashScheme({ blockSize: 16 })
const hasher = createBlockHasher()
const loadedOnce = new Map<string, LoadedModel>()

function load(folder: string): LoadedModel {
  const known = loadedOnce.get(folder) ?? loadModel(folder, folder)
  loadedOnce.set(folder, known)
  return known
}

/** A model with empty caches. */
function fresh(folder: string, pool: TokenPool): ModelTokens {
  return new ModelTokens(load(folder), pool)
}

async function withPool<T>(work: (pool: TokenPool) => Promise<T>): Promise<T> {
  const pool = new TokenPool({ threads: 2 })
  try {
    return await work(pool)
  } finally {
    await pool.close()
  }
}

/** CPU of each run in nanoseconds; every run has an input of its own, so that nothing but the intended part was seen before. */
async function sample(
  runs: number,
  run: (index: number) => Promise<number>,
): Promise<{ samples: number[]; sum: number }> {
  const samples: number[] = []
  let sum = 0
  // Once, not before every run: a collection shrinks the young generation, and what follows pays for growing it again.
  ;(globalThis as { gc?: () => void }).gc?.()
  for (let index = 0; index < runs; index++) {
    const started = process.cpuUsage()
    sum += await run(index)
    const used = process.cpuUsage(started)
    samples.push((used.user + used.system) * 1000)
  }
  return { samples, sum }
}

function report(
  context: BenchContext,
  id: string,
  unit: 'ms' | 'us',
  measured: { samples: number[]; sum: number },
  skip: number,
  per = 1,
): void {
  const { median, spread } = summarise(measured.samples.slice(context.isSmoke ? 0 : skip))
  const value = median / per / (unit === 'ms' ? 1e6 : 1e3)
  context.report({ id, value, unit, spread, checksum: String(measured.sum) })
}

async function cold(context: BenchContext): Promise<void> {
  for (const [name, folder] of [
    ['qwen3', tokenizerFolder('qwen3')],
    ['tinyllama', tinyllamaFolder],
  ] as const) {
    const loaded = load(folder)
    const plan = JSON.parse(new TextDecoder().decode(new Uint8Array(loaded.plan).slice())) as EncoderPlan
    const encoder = new Encoder(plan, viewVocabulary(loaded.vocabulary!))
    const text = prose(context.size(20_000, textBytes), 60)
    const measured = await sample(context.size(1, 13), () => {
      encoder.clearCaches()
      return Promise.resolve(encoder.encode(text).length)
    })
    report(context, `tokens.cold60k.${name}.ms`, 'ms', measured, 3)
  }
}

async function shared(context: BenchContext): Promise<void> {
  await withPool(async (pool) => {
    const model = fresh(tokenizerFolder('qwen3'), pool)
    const length = context.size(30_000, textBytes)
    const base = prose(length, 90)
    const seen = base.slice(0, Math.floor(length * 0.9))
    ;(await model.tokenize('completions', { prompt: base })).blockHashes(scheme, hasher)
    const tails = Array.from({ length: context.size(2, 30) }, (_, index) => prose(length / 10, 1000 + index))
    const measured = await sample(tails.length, async (index) => {
      const tokens = await model.tokenize('completions', { prompt: seen + tails[index]! })
      return tokens.blockHashes(scheme, hasher).count
    })
    report(context, 'tokens.shared90.60k.ms', 'ms', measured, 12)
  })
}

async function hashed(model: ModelTokens, messages: readonly Message[]): Promise<Tokens> {
  const tokens = await model.tokenize('chat', { messages })
  tokens.blockHashes(scheme, hasher)
  return tokens
}

async function chats(context: BenchContext): Promise<void> {
  await withPool(async (pool) => {
    const count = context.size(6, 42)
    const model = fresh(tokenizerFolder('qwen3'), pool)
    const before = conversation(count, 1)
    await hashed(model, before)
    const perRun = context.size(1, 20) // one takes less than the clock's noise
    const turns = Array.from({ length: context.size(2, 20) * perRun }, (_, index) =>
      conversation(3, 500 + index, 300).slice(1),
    )
    const warm = await sample(turns.length / perRun, async (run) => {
      let sum = 0
      for (let index = run * perRun; index < (run + 1) * perRun; index++) {
        sum += (await hashed(model, [...before, ...turns[index]!])).ids.length
      }
      return sum
    })
    report(context, 'tokens.chat42.warm.ms', 'ms', warm, 8, perRun)

    const models = Array.from({ length: context.size(1, 24) }, () => fresh(tokenizerFolder('qwen3'), pool))
    const first = await sample(
      models.length,
      async (index) => (await hashed(models[index]!, conversation(count, 700 + index))).ids.length,
    )
    report(context, 'tokens.chat42.cold.ms', 'ms', first, 12)
  })
}

interface AgentTurn {
  readonly before: readonly Value[]
  readonly turns: readonly (readonly Value[])[]
}

/** What an agent sends: calls and results behind one question. */
function agentTurns(count: number, turns: number): AgentTurn {
  const message = (index: number): Value => {
    if (index === 0) return { role: 'system', content: prose(800, 1) }
    if (index === 1) return { role: 'user', content: prose(400, 2) }
    if (index % 2) return { role: 'tool', tool_call_id: `c${index}`, content: prose(900, index) }
    const args = { path: `/src/${index}`, pattern: prose(100, index), limit: index }
    return {
      role: 'assistant',
      content: '',
      tool_calls: [
        { id: `c${index + 1}`, type: 'function', function: { name: `tool_${index % 20}`, arguments: args } },
      ],
    }
  }
  const before = Array.from({ length: count }, (_, index) => message(index))
  return {
    before,
    turns: Array.from({ length: turns }, (_, index) => [
      message(count),
      { role: 'tool', content: prose(300, 9000 + index) },
    ]),
  }
}

function agentTools(): Value {
  return Array.from({ length: 20 }, (_, index) => ({
    type: 'function',
    function: {
      name: `tool_${index}`,
      description: prose(300, index),
      parameters: {
        type: 'object',
        properties: Object.fromEntries(
          Array.from({ length: 8 }, (__, field) => [
            `field_${field}`,
            { type: 'string', description: prose(60, index * 10 + field) },
          ]),
        ),
      },
    },
  }))
}

/** The same requests with and without the cache of rendered conversations, in turn; reading them is not counted. */
async function renderings(context: BenchContext): Promise<void> {
  await withPool(async (pool) => {
    const count = context.size(10, 42)
    const perRun = context.size(1, 20)
    const runs = context.size(1, 25)
    const turns = Array.from({ length: runs * perRun }, (_, index) => conversation(3, 500 + index, 300).slice(1))
    const shapes = {
      chat42: { chat: { before: conversation(count, 1), turns }, tools: null },
      agent42: { chat: agentTurns(count, runs * perRun), tools: agentTools() },
    }
    for (const [shape, { chat, tools }] of Object.entries(shapes)) {
      const variants = [true, false].map((keepsRenderings) => ({
        model: new ModelTokens(load(tokenizerFolder('qwen3')), pool, { keepsRenderings }),
        samples: [] as number[],
        sum: 0,
      }))
      for (const { model } of variants) await model.tokenize('chat', { messages: chat.before, tools })
      for (let run = 0; run < runs; run++) {
        const texts = chat.turns
          .slice(run * perRun, (run + 1) * perRun)
          .map((turn) => JSON.stringify({ messages: [...chat.before, ...turn], tools }))
        for (const variant of run % 2 ? variants : variants.toReversed()) {
          const bodies = texts.map((text) => JSON.parse(text) as Body)
          const started = process.cpuUsage()
          for (const body of bodies) {
            const tokens = await variant.model.tokenize('chat', body)
            variant.sum += tokens.ids.length + tokens.blockHashes(scheme, hasher).count
          }
          const used = process.cpuUsage(started)
          variant.samples.push((used.user + used.system) * 1000)
        }
      }
      for (const [index, name] of ['with', 'without'].entries()) {
        report(context, `tokens.${shape}.${name}_renderings.ms`, 'ms', variants[index]!, 8, perRun)
      }
    }
  })
}

async function small(context: BenchContext): Promise<void> {
  await withPool(async (pool) => {
    const model = fresh(tokenizerFolder('qwen3'), pool)
    const before: Message[] = [
      { role: 'system', content: prose(300, 1) },
      { role: 'user', content: prose(250, 2) },
      { role: 'assistant', content: prose(150, 3) },
    ]
    await hashed(model, [...before, { role: 'user', content: 'And then?' }])
    const perRun = context.size(10, 2000)
    const questions = Array.from({ length: context.size(1, 20) * perRun }, (_, index) => prose(60, 5000 + index))
    const measured = await sample(context.size(1, 20), async (run) => {
      let sum = 0
      for (let index = 0; index < perRun; index++) {
        const tokens = await hashed(model, [...before, { role: 'user', content: questions[run * perRun + index]! }])
        sum += tokens.ids.length
      }
      return sum
    })
    report(context, 'tokens.small.us', 'us', measured, 10, perRun)
  })
}

/** Rendering alone, beside the evaluator of the library that parses the template. */
async function render(context: BenchContext): Promise<void> {
  const { source, parsed } = load(tokenizerFolder('qwen3')).templates[0]!
  const own = new Template(parsed)
  const library = new LibraryTemplate(source)
  const messages = conversation(context.size(6, 42), 3)
  const limits = { stepsMax: Infinity, outputMax: 1 << 24, deadlineMs: 10_000 }
  const options = { limits, now: () => performance.now(), date: () => new Date() }
  const variables = { messages: messages as never, add_generation_prompt: true, tools: null }
  const turns = context.size(1, 200)
  const repeat = (once: () => string) => (): number => {
    let sum = 0
    for (let turn = 0; turn < turns; turn++) sum += Buffer.byteLength(once()) // reads the text, so that it is really made
    return sum
  }
  const timings = await context.compare({
    own: repeat(() => own.render(variables, options)),
    library: repeat(() => library.render(variables)),
  })
  for (const name of ['own', 'library'] as const) {
    const { cpuNs, spread, checksum } = timings[name]
    context.report({ id: `tokens.render42.${name}.ms`, value: cpuNs / turns / 1e6, unit: 'ms', spread, checksum })
  }
}

export const benches: Bench[] = [
  defineBench('tokens.cold', 'What does a 220 KB prompt cost when nothing but the vocabulary is known?', cold),
  defineBench('tokens.shared', 'What does it cost when 90 % of it was seen before, hashes included?', shared),
  defineBench('tokens.chat', 'What does a long conversation cost, first and with one more turn?', chats),
  defineBench('tokens.renderings', 'What do rendered conversations save when one more turn comes?', renderings),
  defineBench('tokens.render', 'What does rendering alone cost, beside the evaluator of the library?', render),
  defineBench('tokens.small', 'What does a small chat cost whose start was seen before?', small),
]
