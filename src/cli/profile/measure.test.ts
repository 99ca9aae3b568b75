import { expect, it } from 'vitest'
import { fitProfile } from '../../sim/index.js'
import type { Probe, ProbeAnswer } from './measure.js'
import { measureSteps, steadyStepMs } from './measure.js'

/** An H200 with an 8B model, as fitted in test/fixtures/gpu. */
const truth = {
  prefill: { constant: 6.38, perNew: 2.24e-2, perNewSquared: 6.405e-7, perNewTimesPrefix: 2.065e-6 },
  decode: { constant: 5.81, perRequest: 2.039e-2, perContextToken: 1.837e-5 },
}

/** A small generator: which numbers come matters to nobody, only that they come again. */
function drawsOf(seed: number): () => number {
  let state = seed
  return () => (state = (state * 16_807) % 2_147_483_647) / 2_147_483_647
}

interface Asked {
  readonly prompt: readonly number[]
  readonly outputTokens: number
  readonly answer: (answer: ProbeAnswer) => void
}

/** An engine on a clock of its own, with a prefix cache; requests of one instant decode together. */
class ModelledEngine implements Probe {
  asked = 0
  #now = 0
  #queue: Asked[] = []
  readonly #cached = new Set<string>()
  readonly #noise: () => number
  readonly #says: 'answers' | 'counts' | 'nothing'
  #cachedTotal = 7000 // others were here before

  /** Whether answers say what was cached, or a counter does, or nobody. */
  constructor(noise: () => number, says: 'answers' | 'counts' | 'nothing' = 'answers') {
    this.#noise = noise
    this.#says = says
  }

  cachedTotal(): Promise<number | undefined> {
    return Promise.resolve(this.#says === 'nothing' ? undefined : this.#cachedTotal)
  }

  nowMs(): number {
    return this.#now
  }

  complete(prompt: readonly number[], outputTokens: number): Promise<ProbeAnswer> {
    this.asked++
    return new Promise((answer) => {
      if (this.#queue.push({ prompt, outputTokens, answer }) === 1) queueMicrotask(() => this.#work())
    })
  }

  #work(): void {
    const batch = this.#queue
    this.#queue = []
    const times = batch.map((): number[] => [])
    const cachedOf = batch.map(({ prompt }) => this.#prefill(prompt))
    for (const [at] of batch.entries()) times[at]!.push(this.#now)
    for (let token = 1; token < batch[0]!.outputTokens; token++) {
      const context = batch.reduce((sum, { prompt }) => sum + prompt.length + token, 0)
      const { constant, perRequest, perContextToken } = truth.decode
      this.#now += (constant + perRequest * batch.length + perContextToken * context) * this.#noise()
      for (const [at] of batch.entries()) times[at]!.push(this.#now)
    }
    for (const [at, { prompt, answer }] of batch.entries())
      answer({
        tokenAtMs: times[at]!,
        promptTokens: prompt.length,
        cachedTokens: this.#says === 'answers' ? cachedOf[at] : undefined,
      })
  }

  #prefill(prompt: readonly number[]): number {
    const half = (count: number): string => `${prompt[0]} ${prompt[count - 1]} ${count}`
    const cached = [32_768, 16_384, 8192, 2048].find((it) => it < prompt.length && this.#cached.has(half(it))) ?? 0
    const { constant, perNew, perNewSquared, perNewTimesPrefix } = truth.prefill
    for (let done = cached; done < prompt.length; done += 8192) {
      const tokens = Math.min(8192, prompt.length - done)
      this.#now += (constant + tokens * (perNew + perNewSquared * tokens + perNewTimesPrefix * done)) * this.#noise()
    }
    this.#cached.add(half(prompt.length))
    this.#cachedTotal += cached
    return cached
  }
}

it('recovers the coefficients of a model of an engine within 2 %', async () => {
  const engine = new ModelledEngine(() => 1)
  const points = await measureSteps(engine, { seconds: 60, contextMax: 41_000, random: drawsOf(1) })
  const { profile, prefillError, decodeError } = fitProfile(points, 'fitted', 8192)
  const near = (values: object, wanted: object): void => {
    for (const [name, value] of Object.entries(wanted))
      expect(Math.abs((values as Record<string, number>)[name]! / (value as number) - 1), name).toBeLessThan(0.02)
  }
  near(profile.prefill, truth.prefill)
  near(profile.decode, truth.decode)
  expect(prefillError).toBeLessThan(0.01)
  expect(decodeError).toBeLessThan(0.01)
})

it('predicts steps within 10 % where every step takes up to a third longer than it should', async () => {
  const draw = drawsOf(2)
  const engine = new ModelledEngine(() => 1 + 0.33 * draw())
  const points = await measureSteps(engine, { seconds: 120, contextMax: 41_000, random: drawsOf(1) })
  const { prefill } = fitProfile(points, 'fitted', 8192).profile
  for (const [fresh, prefix] of [
    [512, 0],
    [2048, 0],
    [8192, 0],
    [1024, 8192],
    [4096, 32_768],
  ] as const) {
    const ms = (of: typeof prefill): number =>
      of.constant + fresh * (of.perNew + of.perNewSquared * fresh + of.perNewTimesPrefix * prefix)
    // Noise only adds, and the least of several measurements is taken; 8 % is what is left of it.
    expect(Math.abs(ms(prefill) / ms(truth.prefill) - 1.08), `${fresh} after ${prefix}`).toBeLessThan(0.1)
  }
})

it('takes the word of a counter where answers do not say what was cached', async () => {
  const options = { seconds: 60, contextMax: 41_000 }
  const said = await measureSteps(new ModelledEngine(() => 1), { ...options, random: drawsOf(1) })
  const counted = await measureSteps(new ModelledEngine(() => 1, 'counts'), { ...options, random: drawsOf(1) })
  expect(counted).toEqual(said)
})

it('leaves out what is behind a prefix where nobody says what was cached', async () => {
  const silent = new ModelledEngine(() => 1, 'nothing')
  const points = await measureSteps(silent, { seconds: 60, contextMax: 41_000, random: drawsOf(1) })
  expect(points.unknownPrefixes).toBeGreaterThan(5)
  expect(new Set(points.prefill.map(({ prefixTokens }) => prefixTokens))).toEqual(new Set([0]))
})

it('lets no more decode together than the cache holds', async () => {
  const engine = new ModelledEngine(() => 1)
  const small = { seconds: 60, contextMax: 8192, capacityTokens: 9568, random: drawsOf(1) }
  const { decode, prefill } = await measureSteps(engine, small)
  expect(decode.map(({ batch, context }) => batch * context)).not.toContain(16 * (2048 + 16))
  for (const { batch, context } of decode) expect(batch * context).toBeLessThan(9568)
  expect(decode.length).toBeGreaterThan(3)
  for (const { newTokens, prefixTokens } of prefill) expect(newTokens + prefixTokens).toBeLessThan(9568)
})

it('asks little of an engine that has little time, and never more than it takes', async () => {
  const short = new ModelledEngine(() => 1)
  const long = new ModelledEngine(() => 1)
  await measureSteps(short, { seconds: 1, contextMax: 4096, random: drawsOf(1) })
  await measureSteps(long, { seconds: 30, contextMax: 4096, random: drawsOf(1) })
  expect(short.asked).toBeLessThan(long.asked)
  expect(short.nowMs()).toBeLessThan(4000) // one second, and what had begun
})

it('takes steps from the time in which all streams decode, also where tokens come in bunches', () => {
  expect(
    steadyStepMs([
      [0, 10, 20, 30, 40],
      [15, 25, 35],
    ]),
  ).toBe(10)
  expect(steadyStepMs([[0, 0, 0, 30, 30, 30, 60]])).toBe(10)
  expect(steadyStepMs([[0, 10], []])).toBeUndefined()
})
