/**
 * What a request costs the gateway, beside the least that a proxy can do. Engines, load and proxies are processes of
 * their own; what is measured is the CPU time of the proxy, in turns, so that a busy machine slows both alike.
 */
import type { ChildProcess } from 'node:child_process'
import type { BenchContext } from '../harness.js'
import { defineBench, summarise } from '../harness.js'
import type { Code, Started } from './children.js'
import { ask, compileSources, sources, startChild } from './children.js'
import type { Shape } from './shapes.js'
import type { Use } from './use.js'

type Subject = 'gateway' | 'exact' | 'floor' | 'pairs'

interface Sample extends Use {
  readonly errors: number
}

interface Measured extends Readonly<Record<Subject, readonly Sample[]>> {
  /** The turn before the first that counts, while the processes compile what they run. */
  readonly cold: Partial<Record<Subject, Sample>>
  /** Of shapes that come twice in a turn: the first time, after the others had theirs. */
  readonly rested: Readonly<Record<Subject, readonly Sample[]>>
}

const base = { isStream: true, groups: 64, shared: 0.9, chunkMs: 0 } as const

function shapesOf(bench: BenchContext): Readonly<Record<'W5' | 'W1' | 'W2' | 'W3' | 'W4', Shape>> {
  const { size } = bench
  return {
    W5: {
      ...base,
      name: 'W5',
      isStream: false,
      promptBytes: 900,
      chunks: 1,
      clients: size(4, 64),
      requests: size(20, 6_000),
    },
    W1: { ...base, name: 'W1', promptBytes: 900, chunks: 16, clients: size(4, 32), requests: size(20, 3_000) },
    W2: {
      ...base,
      name: 'W2',
      groups: 16,
      promptBytes: 220 * 1024,
      chunks: 4,
      clients: size(2, 8),
      requests: size(4, 480),
    },
    W3: {
      ...base,
      name: 'W3',
      promptBytes: 900,
      chunks: size(20, 1_000),
      chunkMs: 1,
      clients: size(2, 16),
      requests: size(2, 16),
    },
    W4: {
      ...base,
      name: 'W4',
      promptBytes: 900,
      chunks: size(3, 31),
      chunkMs: size(5, 500),
      clients: size(8, 2_000),
      requests: size(8, 2_000),
      rampMs: size(1, 2_000),
    },
  }
}

export const benches = [
  defineBench('gateway.W5', 'what does a small whole answer cost?', (bench) => perRequest(bench, 'W5')),
  defineBench('gateway.W1', 'what does a short stream cost?', (bench) => perRequest(bench, 'W1')),
  defineBench('gateway.W2.approx', 'what does a long prompt cost without a tokenizer?', (bench) =>
    perRequest(bench, 'W2'),
  ),
  defineBench('gateway.W2.exact', 'what does a long prompt cost with its exact tokens?', exactTokens),
  defineBench('gateway.W3', 'what does a chunk cost?', (bench) => perChunk(bench, 'W3')),
  defineBench('gateway.W4', 'what do 2,000 slow streams cost?', (bench) => perChunk(bench, 'W4')),
  defineBench('disagg.overhead', 'what does it cost to prefill a request elsewhere?', splitting),
  defineBench('gateway.loop_stall', 'how long does the loop stand still under short and long prompts?', loopStall),
]

async function perRequest(bench: BenchContext, name: 'W5' | 'W1' | 'W2'): Promise<void> {
  const shape = shapesOf(bench)[name]
  const id = name === 'W2' ? 'gateway.W2.approx' : `gateway.${name}`
  const { gateway, floor } = await measure(bench, shape, 5, ['gateway', 'floor'])
  besideFloor(bench, id, { what: 'cpu_ms_per_req', unit: 'ms', perUs: 1 / 1000 / shape.requests, ours: gateway, floor })
}

async function perChunk(bench: BenchContext, name: 'W3' | 'W4'): Promise<void> {
  const shape = shapesOf(bench)[name]
  const { gateway, floor, cold, rested } = await measure(bench, shape, name === 'W4' ? 4 : 7, ['gateway', 'floor'])
  const perUs = 1 / (shape.requests * shape.chunks)
  besideFloor(bench, `gateway.${name}`, { what: 'cpu_us_per_chunk', unit: 'us', perUs, ours: gateway, floor })
  if (name === 'W3') return
  if (cold.gateway && cold.floor)
    report(bench, 'gateway.W4.cold_over_floor', 'x', [cold.gateway.cpuUs / cold.floor.cpuUs])
  report(bench, 'gateway.W4.rested_over_floor', 'x', ratios(cpuOf(rested.gateway), cpuOf(rested.floor)))
  report(
    bench,
    'gateway.W4.errors',
    'count',
    [...rested.gateway, ...gateway].map((it) => it.errors),
  )
  report(
    bench,
    'gateway.W4.rss_mb',
    'MB',
    gateway.map((it) => it.peakMb),
  )
  report(
    bench,
    'gateway.W4.floor_rss_mb',
    'MB',
    floor.map((it) => it.peakMb),
  )
}

async function exactTokens(bench: BenchContext): Promise<void> {
  const shape = shapesOf(bench).W2
  const { exact, floor } = await measure(bench, shape, 5, ['exact', 'floor'])
  const perUs = 1 / 1000 / shape.requests
  besideFloor(bench, 'gateway.W2.exact', { what: 'cpu_ms_per_req', unit: 'ms', perUs, ours: exact, floor })
}

interface CpuFigure {
  /** The last part of the figure's name. */
  readonly what: string
  readonly unit: string
  /** What one microsecond of CPU time is in this unit. */
  readonly perUs: number
  readonly ours: readonly Sample[]
  readonly floor: readonly Sample[]
}

/**
 * Our figure, the floor's, and the ratio. The ratio is taken turn by turn, between runs that followed each other, so that a
 * machine that is busy for a while slows both sides of it; the ratio of the two medians may pair different moments.
 */
function besideFloor(bench: BenchContext, id: string, { what, unit, perUs, ours, floor }: CpuFigure): void {
  const figures = ours.map((it) => it.cpuUs * perUs)
  const floors = floor.map((it) => it.cpuUs * perUs)
  report(bench, `${id}.${what}`, unit, figures)
  report(bench, `${id}.floor_${what}`, unit, floors)
  report(bench, `${id}.over_floor`, 'x', ratios(figures, floors))
}

function cpuOf(samples: readonly Sample[]): number[] {
  return samples.map((it) => it.cpuUs)
}

function ratios(ours: readonly number[], floor: readonly number[]): number[] {
  return ours.map((value, turn) => value / floor[turn]!)
}

/** A short stream, once through one engine and once through a pair of them, in turns. */
async function splitting(bench: BenchContext): Promise<void> {
  const shape = shapesOf(bench).W1
  const { gateway, pairs } = await measure(bench, shape, 7, ['gateway', 'pairs'])
  const each = (samples: readonly Sample[]): number[] => samples.map((it) => it.cpuUs / 1000 / shape.requests)
  const alone = each(gateway)
  const split = each(pairs)
  report(bench, 'disagg.overhead.aggregated_cpu_ms_per_req', 'ms', alone)
  report(bench, 'disagg.overhead.paired_cpu_ms_per_req', 'ms', split)
  report(
    bench,
    'disagg.overhead.cpu_ms_per_req',
    'ms',
    split.map((value, at) => value - alone[at]!),
  )
}

/** W1 and W2 at once against the same gateway, with tokens. */
async function loopStall(bench: BenchContext): Promise<void> {
  const { W1, W2 } = shapesOf(bench)
  const { exact } = await measure(bench, W2, 3, ['exact'], W1)
  report(
    bench,
    'gateway.loop_stall_p999_ms',
    'ms',
    exact.map((it) => it.stallP999Ms),
  )
  const busy = exact.flatMap((it) => it.busyP999Ms ?? [])
  if (busy.length > 0) report(bench, 'gateway.loop_busy_p999_ms', 'ms', busy)
}

function report(bench: BenchContext, id: string, unit: string, samples: readonly number[]): void {
  const { median, spread } = summarise(samples)
  bench.report({ id, value: median, unit, spread, checksum: String(samples.length) })
}

interface Stage {
  readonly engines: ChildProcess
  readonly load: ChildProcess
  readonly secondLoad: ChildProcess
  readonly subjects: Readonly<Record<Subject, { readonly child: ChildProcess; readonly port: number } | undefined>>
  close(): void
}

const everybody: readonly Subject[] = ['gateway', 'exact', 'floor', 'pairs']
let smokeStage: Promise<Stage> | undefined
let compiled: Code | undefined

/** Each process ends itself when its channel closes. */
async function openStage(code: Code, wanted: readonly Subject[]): Promise<Stage> {
  const children: ChildProcess[] = []
  const start = async <T>(file: string, argument?: unknown): Promise<Started<T>> => {
    const started = await startChild<T>(code, file, argument)
    children.push(started.child)
    return started
  }
  const [engines, load, secondLoad] = await Promise.all([
    start<{ ports: number[] }>('./engines.child.ts'),
    start('./load.child.ts'),
    start('./load.child.ts'),
  ])
  const { ports } = engines.first
  const open = async (subject: Subject) => {
    if (!wanted.includes(subject)) return undefined
    const asked = { ports, isExact: subject === 'exact', isPaired: subject === 'pairs' }
    const { child, first } = await (subject === 'floor'
      ? start<{ port: number }>('./floor/proxy.child.ts', ports)
      : start<{ port: number }>('./gateway.child.ts', asked))
    return { child, port: first.port }
  }
  const [gateway, exact, floor, pairs] = await Promise.all([
    open('gateway'),
    open('exact'),
    open('floor'),
    open('pairs'),
  ])
  return {
    engines: engines.child,
    load: load.child,
    secondLoad: secondLoad.child,
    subjects: { gateway, exact, floor, pairs },
    close: () => {
      for (const child of children) child.disconnect()
    },
  }
}

/** Fresh processes for every benchmark, so that none carries the memory of another; in the tests they are shared. */
async function measure(
  bench: BenchContext,
  shape: Shape,
  turns: number,
  wanted: readonly Subject[],
  beside?: Shape,
): Promise<Measured> {
  if (bench.isSmoke) return takeTurns(await (smokeStage ??= openStage(sources, everybody)), shape, 1, wanted, beside)
  const stage = await openStage((compiled ??= compileSources()), wanted)
  const samples = await takeTurns(stage, shape, turns, wanted, beside)
  stage.close()
  return samples
}

/**
 * Gateway and floor in turns, each turn with the same load; one turn before the first is not counted. Slow streams come twice in a turn,
 * and the second time counts: while the others have their turns V8 gives memory back, and throws compiled code away with it, of the floor
 * after seconds (docs/decisions/0267). So the first time is a figure of its own.
 */
async function takeTurns(
  stage: Stage,
  shape: Shape,
  turns: number,
  wanted: readonly Subject[],
  beside?: Shape,
): Promise<Measured> {
  await ask(stage.engines, shape)
  const samples: Record<Subject, Sample[]> = { gateway: [], exact: [], floor: [], pairs: [] }
  const rested: Record<Subject, Sample[]> = { gateway: [], exact: [], floor: [], pairs: [] }
  const cold: Partial<Record<Subject, Sample>> = {}
  for (let turn = turns === 1 ? 1 : 0; turn <= turns; turn++) {
    for (const subject of wanted) {
      const take = (): Promise<Sample> => takeSample(stage, subject, shape, turn * 512, beside)
      if (turn > 0 && shape.rampMs !== undefined) rested[subject].push(await take())
      const sample = await take()
      if (turn > 0) samples[subject].push(sample)
      else cold[subject] = sample
    }
  }
  return { ...samples, cold, rested }
}

async function takeSample(
  { load, secondLoad, subjects }: Stage,
  subject: Subject,
  shape: Shape,
  first: number,
  beside: Shape | undefined,
): Promise<Sample> {
  const { child, port } = subjects[subject]!
  const before = await ask<Use>(child, beside ? 'watch' : 'reset')
  const other = beside && ask(secondLoad, { port, shape: beside, first })
  const { errors } = await ask<{ errors: number }>(load, { port, shape, first })
  await other
  const after = await ask<Use>(child, 'use')
  if (subject !== 'floor' && errors > 0 && shape.name !== 'W4') throw new Error(`${shape.name}: ${errors} errors`)
  return { ...after, cpuUs: after.cpuUs - before.cpuUs, errors }
}
