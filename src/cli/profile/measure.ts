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
  /** Prompt tokens that the engine ever took from its cache, by its own count. Undefined: it does not count them. */
  cachedTotal(): Promise<number | undefined>
  complete(prompt: readonly number[], outputTokens: number): Promise<ProbeAnswer>
}

export interface MeasureOptions {
  readonly seconds: number
  /** Longest context that the engine takes, prompt and answer. */
  readonly contextMax: number
  /** Uniform in 0..1: no prompt may be known to a cache. */
  readonly random: () => number
  /** Tokens that its cache holds; what does not fit beside each other cannot decode together. Undefined: it does not say. */
  readonly capacityTokens?: number | undefined
  readonly tell?: (text: string) => void
}

export interface MeasuredSteps extends StepPoints {
  /** Prompts behind a prefix that were not counted, since nobody said whether the prefix was cached. */
  readonly unknownPrefixes: number
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
export async function measureSteps(probe: Probe, options: MeasureOptions): Promise<MeasuredSteps> {
  const startMs = probe.nowMs()
  const endMs = startMs + 1000 * options.seconds
  const prefills: Prefills = { points: new Map(), unknownPrefixes: 0 }
  const decodes = new Map<string, { batch: number; context: number; ms: number[] }>()
  await probe.complete(tokens(64, options.random), 2) // the first request of a process pays for much that no other does
  await goRound(probe, startMs + prefillShare * (endMs - startMs), prefillTasks(probe, options, prefills), options.tell)
  await goRound(probe, endMs, decodeTasks(probe, options, decodes), options.tell)
  return {
    // Nobody computes faster than the engine can: what is above the least is somebody else's noise.
    prefill: [...prefills.points.values()].map((point) => ({ ...point, ms: Math.min(...point.ms) })),
    decode: [...decodes.values()].map((point) => ({ ...point, ms: medianOf(point.ms) })),
    unknownPrefixes: prefills.unknownPrefixes,
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
/** Of the capacity: contexts are rounded up to whole blocks. */
const usableShare = 0.9
const roundsMax = 20

interface Prefills {
  readonly points: Map<string, { newTokens: number; prefixTokens: number; ms: number[] }>
  unknownPrefixes: number
}

function prefillTasks(
  probe: Probe,
  { contextMax, capacityTokens = Number.POSITIVE_INFINITY, random }: MeasureOptions,
  into: Prefills,
): Task[] {
  return prefixSizes.flatMap((prefixTokens) =>
    newSizes
      .filter((newTokens) => prefixTokens + newTokens + 1 <= Math.min(contextMax, capacityTokens))
      .map((newTokens) => ({
        size: newTokens + 2 * prefixTokens,
        run: async () => {
          const prefix = tokens(prefixTokens, random)
          const first = prefixTokens > 0 ? await probe.complete(prefix, 1) : undefined
          const isSilent = first !== undefined && first.cachedTokens === undefined
          const before = isSilent ? await probe.cachedTotal() : undefined
          const sentMs = probe.nowMs()
          const answer = await probe.complete([...prefix, ...tokens(newTokens, random)], 1)
          const atMs = answer.tokenAtMs[0]
          if (atMs === undefined) return
          // A prompt without a prefix was never seen before. Whether a prefix is cached is the engine's word, never ours.
          const said = answer.cachedTokens ?? (prefixTokens === 0 ? 0 : await hitsSince(probe, before))
          if (said === undefined) {
            into.unknownPrefixes++
            return
          }
          const cached = Math.min(said, answer.promptTokens - 1)
          add(into.points, { newTokens: answer.promptTokens - cached, prefixTokens: cached }, atMs - sentMs)
        },
      })),
  )
}

/** An engine's count may come a moment after its answer. */
async function hitsSince(probe: Probe, before: number | undefined): Promise<number | undefined> {
  if (before === undefined) return undefined
  for (let attempt = 0; attempt < countAttempts; attempt++) {
    const after = await probe.cachedTotal()
    if (after === undefined || after > before) return after === undefined ? undefined : after - before
  }
  return 0
}

const countAttempts = 5

function decodeTasks(
  probe: Probe,
  { contextMax, capacityTokens = Number.POSITIVE_INFINITY, random }: MeasureOptions,
  into: Map<string, { batch: number; context: number; ms: number[] }>,
): Task[] {
  return contextSizes.flatMap((context) =>
    batchSizes
      .filter(
        (batch) =>
          context + answerTokens <= contextMax && batch * (context + answerTokens) <= capacityTokens * usableShare,
      )
      .map((batch) => ({
        size: batch * (context + 4 * answerTokens),
        run: async () => {
          const answers = await Promise.all(
            Array.from({ length: batch }, () => probe.complete(tokens(context, random), answerTokens)),
          )
          const stepMs = steadyStepMs(answers.map(({ tokenAtMs }) => tokenAtMs))
          // While everybody decodes, the contexts have grown by half of the answers.
          if (stepMs !== undefined) add(into, { batch, context: context + answerTokens / 2 }, stepMs)
        },
      })),
  )
}

/**
 * Mean time between tokens while all streams decode: after the last first token, before the first end. Not a median of gaps: on a busy
 * machine tokens come in bunches, and then most gaps are nearly nothing.
 */
export function steadyStepMs(streams: readonly (readonly number[])[]): number | undefined {
  const from = Math.max(...streams.map((times) => times[0] ?? Number.POSITIVE_INFINITY))
  const to = Math.min(...streams.map((times) => times.at(-1) ?? Number.NEGATIVE_INFINITY))
  let ms = 0
  let steps = 0
  for (const times of streams) {
    const steady = times.filter((at) => at >= from && at <= to)
    if (steady.length < 2) continue
    ms += steady.at(-1)! - steady[0]!
    steps += steady.length - 1
  }
  return steps === 0 ? undefined : ms / steps
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
