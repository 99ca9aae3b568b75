/** `warmroute serve` before simulated engines for tests: as an operator would start it, and nothing left after each test. */
import { OpenAI } from 'openai'
import { afterEach, expect } from 'vitest'
import { expectClosed } from '../../test/closed-router.js'
import type { SimEngine, SimEngineOptions } from '../sim/index.js'
import { startSimEngine } from '../sim/index.js'
import type { AddressReport } from './assemble/assembly-options.js'
import type { UsualPorts } from './assemble/find-sockets.js'
import type { Served } from './serve.js'
import { serve } from './serve.js'

export interface ServeHouse {
  /** Closed after the test, the last first. */
  readonly open: { close(): Promise<void> | void }[]
  readonly engine: (options?: Partial<SimEngineOptions>) => Promise<SimEngine>
  readonly start: (
    words: readonly string[],
    lines?: string[],
    usualPorts?: UsualPorts,
    env?: Readonly<Record<string, string>>,
  ) => Promise<Served>
}

/** Every engine's events are followed. */
export function isExact(reports: readonly AddressReport[]): boolean {
  return reports.every(({ verdict }) => verdict?.mode === 'exact')
}

export function serveOfEachTest(): ServeHouse {
  const open: { close(): Promise<void> | void }[] = []
  const routers: Served[] = []
  afterEach(async () => {
    for (const it of open.splice(0).reverse()) await it.close()
    await expectClosed(...routers.splice(0))
  })
  return {
    open,
    async engine(options = {}) {
      const started = await startSimEngine({ engine: 'vllm', speedup: 100, blockTokens: 16, ...options })
      open.push(started)
      return started
    },
    async start(words, lines = [], usualPorts, env = {}) {
      const times = { watchMs: 50, retryMs: [20, 100] as const, missesMax: 2, probeMs: 10_000 } // the dead refuse at once
      const say = (line: string): void => void lines.push(line)
      const flags = ['--port', '0', '--log', 'off', ...words]
      const served = await serve({ words: flags, env, say, times, ...(usualPorts ? { usualPorts } : {}) })
      open.push(served)
      routers.push(served)
      return served
    },
  }
}

export function client({ address }: Served): OpenAI {
  return new OpenAI({ baseURL: `${address.url}/v1`, apiKey: 'none', maxRetries: 0 })
}

/** Everything that the engines published has arrived. */
export async function settled({ assembly }: Served, engines: readonly SimEngine[]): Promise<void> {
  const isCaughtUp = (reports: readonly AddressReport[]) =>
    engines.every(
      (it, at) => it.stats().in_flight === 0 && reports[at]!.batches === it.stats().ranks[0]!.batches_numbered,
    )
  expect(await assembly.until(isCaughtUp, 60_000)).toBe(true)
}

/** One turn of a conversation; adds the answer to it. */
export async function say(ai: OpenAI, messages: OpenAI.ChatCompletionMessageParam[], text: string) {
  messages.push({ role: 'user', content: text })
  const { data, response } = await ai.chat.completions.create({ model: 'sim', messages, max_tokens: 24 }).withResponse()
  messages.push({ role: 'assistant', content: data.choices[0]!.message.content })
  return {
    worker: response.headers.get('x-warmroute-worker-id')!,
    predicted: Number(response.headers.get('x-warmroute-cached-tokens')),
    reported: data.usage!.prompt_tokens_details?.cached_tokens ?? 0,
  }
}

export function conversation(topic: string): OpenAI.ChatCompletionMessageParam[] {
  return [{ role: 'system', content: `You know all about ${topic}. `.repeat(30) }]
}
