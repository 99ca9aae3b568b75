/**
 * Measures an engine's step times from outside: prompts of several lengths alone, cold and behind a prefix that it has cached, and
 * answers of several batches at once. Knows no HTTP and no clock: both are handed in, so a test measures a model of an engine.
 */
import type { StepPoints } from '../../sim/index.js'

export interface ProbeAnswer {
  /** When each token of the answer came, in the clock of `nowMs`. */
  readonly tokenAtMs: readonly number[]
  readonly promptTokens: number
  /** Undefined: the engine does not say. */
  readonly cachedTokens: number | undefined
}

export interface Probe {
  nowMs(): number
  complete(prompt: readonly number[], outputTokens: number): Promise<ProbeAnswer>
}

export interface MeasureOptions {
  readonly seconds: number
  /** Longest context that the engine takes, prompt and answer. */
  readonly contextMax: number
  /** Uniform in 0..1: no prompt may be known to a cache. */
  readonly random: () => number
  readonly tell?: (text: string) => void
}

const newSizes = [128, 512, 1024, 2048, 4096, 8192]
const prefixSizes = [0, 2048, 8192, 16_384, 32_768]
const batchSizes = [1, 4, 16]
const contextSizes = [256, 2048, 8192]
const answerTokens = 32
/** Of the time; the rest is for decode steps. */
const prefillShare = 0.6
/** Tokens that every vocabulary has, none of them special. */
const [tokenFrom, tokenTo] = [1000, 20_000]

/** One measured thing; several measurements of the same one become one point. */
interface Task {
  readonly size: number
  readonly run: () => Promise<void>
}

/** Goes round the points, from small to large, until the time is over; an engine that is slow is asked less. */
export async function measureSteps(probe: Probe, options: MeasureOptions): Promise<StepPoints> {
  const startMs = probe.nowMs()
  const endMs = startMs + 1000 * options.seconds
  const prefills = new Map<string, { newTokens: number; prefixTokens: number; ms: number[] }>()
  const decodes = new Map<string, { batch: number; context: number; ms: number[] }>()
  await probe.complete(tokens(64, options.random), 2) // the first request of a process pays for much that no other does
  await goRound(probe, startMs + prefillShare * (endMs - startMs), prefillTasks(probe, options, prefills), options.tell)
  await goRound(probe, endMs, decodeTasks(probe, options, decodes), options.tell)
  return {
    // Nobody computes faster than the engine can: what is above the least is somebody else's noise.
    prefill: [...prefills.values()].map((point) => ({ ...point, ms: Math.min(...point.ms) })),
    decode: [...decodes.values()].map((point) => ({ ...point, ms: medianOf(point.ms) })),
  }
}

/** At least once what fits, then again while there is time. */
async function goRound(probe: Probe, untilMs: number, tasks: Task[], tell?: (text: string) => void): Promise<void> {
  let todo = [...tasks].sort((a, b) => a.size - b.size)
  let msPerToken = 0
  for (let round = 1; todo.length > 0; round++) {
    const done: Task[] = []
    for (const [index, task] of todo.entries()) {
      const startMs = probe.nowMs()
      // What is known of the speed says what would take more than is left; the smallest few are always measured.
      const isAffordable = startMs + msPerToken * task.size <= untilMs
      if (!isAffordable && (round > 1 || index >= tasksMin)) break
      tell?.(
        `round ${round}, ${index + 1} of ${todo.length}, ${Math.max(0, Math.ceil((untilMs - startMs) / 1000))} s left`,
      )
      await task.run()
      msPerToken = Math.max(0.5 * msPerToken, (probe.nowMs() - startMs) / task.size)
      done.push(task)
    }
    if (probe.nowMs() >= untilMs || round >= roundsMax) return
    todo = done
  }
}

const tasksMin = 5
const roundsMax = 20

function prefillTasks(
  probe: Probe,
  { contextMax, random }: MeasureOptions,
  into: Map<string, { newTokens: number; prefixTokens: number; ms: number[] }>,
): Task[] {
  return prefixSizes.flatMap((prefixTokens) =>
    newSizes
      .filter((newTokens) => prefixTokens + newTokens + 1 <= contextMax)
      .map((newTokens) => ({
        size: newTokens + 2 * prefixTokens,
        run: async () => {
          const prefix = tokens(prefixTokens, random)
          if (prefixTokens > 0) await probe.complete(prefix, 1)
          const sentMs = probe.nowMs()
          const answer = await probe.complete([...prefix, ...tokens(newTokens, random)], 1)
          const first = answer.tokenAtMs[0]
          if (first === undefined) return
          const cached = Math.min(answer.cachedTokens ?? prefixTokens, answer.promptTokens - 1)
          add(into, { newTokens: answer.promptTokens - cached, prefixTokens: cached }, first - sentMs)
        },
      })),
  )
}

function decodeTasks(
  probe: Probe,
  { contextMax, random }: MeasureOptions,
  into: Map<string, { batch: number; context: number; ms: number[] }>,
): Task[] {
  return contextSizes.flatMap((context) =>
    batchSizes
      .filter(() => context + answerTokens <= contextMax)
      .map((batch) => ({
        size: batch * (context + 4 * answerTokens),
        run: async () => {
          const answers = await Promise.all(
            Array.from({ length: batch }, () => probe.complete(tokens(context, random), answerTokens)),
          )
          const gaps = steadyGaps(answers.map(({ tokenAtMs }) => tokenAtMs))
          // While everybody decodes, the contexts have grown by half of the answers.
          if (gaps.length > 0) add(into, { batch, context: context + answerTokens / 2 }, medianOf(gaps))
        },
      })),
  )
}

/** Times between tokens while all of them decode: after the last first token, before the first end. */
export function steadyGaps(streams: readonly (readonly number[])[]): number[] {
  const from = Math.max(...streams.map((times) => times[0] ?? Number.POSITIVE_INFINITY))
  const to = Math.min(...streams.map((times) => times.at(-1) ?? Number.NEGATIVE_INFINITY))
  return streams.flatMap((times) =>
    times.flatMap((at, index) => {
      const before = times[index - 1]
      return before !== undefined && before >= from && at <= to ? [at - before] : []
    }),
  )
}

function add<Point extends object>(into: Map<string, Point & { ms: number[] }>, point: Point, ms: number): void {
  if (!(ms > 0)) return
  const key = JSON.stringify(point)
  const known = into.get(key)
  if (known) known.ms.push(ms)
  else into.set(key, { ...point, ms: [ms] })
}

function tokens(count: number, random: () => number): number[] {
  return Array.from({ length: count }, () => tokenFrom + Math.floor(random() * (tokenTo - tokenFrom)))
}

function medianOf(values: readonly number[]): number {
  const sorted = [...values].sort((a, b) => a - b)
  return sorted[Math.floor(sorted.length / 2)]!
}
