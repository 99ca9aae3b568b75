/**
 * What a benchmark is made of. Goals: figures that can be compared inside one run, a checksum with every figure so that
 * faster cannot mean wrong, and a small form that runs inside the tests so that no benchmark rots.
 * Not a goal: absolute precision on a shared machine. Time is CPU time of this process; spread says how far it wandered.
 */

export interface Figure {
  /** A stable name such as `hash.8k.ns_per_block`. */
  readonly id: string
  readonly value: number
  readonly unit: string
  /** (highest - lowest) / median over the runs; 0 for a figure that was not timed. */
  readonly spread: number
  /** What the measured work computed: equal work has an equal checksum. */
  readonly checksum: string
}

export interface Timing {
  /** Median CPU time of one run, in nanoseconds. */
  readonly cpuNs: number
  readonly spread: number
  readonly checksum: string
}

export interface BenchContext {
  readonly isSmoke: boolean
  /** Small in the tests, large on request. */
  readonly size: (smoke: number, full: number) => number
  /**
   * Runs the variants in turn, `runs` times (5, or 1 in the tests), after one turn to warm up. A variant returns its
   * checksum; variants of one call must agree on it.
   */
  readonly compare: <Name extends string>(
    variants: Readonly<Record<Name, () => number | bigint | string | Promise<number | bigint | string>>>,
    options?: { readonly runs?: number; readonly sameChecksum?: boolean },
  ) => Promise<Readonly<Record<Name, Timing>>>
  readonly report: (figure: Figure) => void
}

export interface Bench {
  readonly name: string
  /** The question that the figures answer, in one sentence. */
  readonly question: string
  readonly run: (context: BenchContext) => void | Promise<void>
}

/** Every `*.bench.ts` exports `const benches: Bench[]`. */
export function defineBench(name: string, question: string, run: Bench['run']): Bench {
  return { name, question, run }
}

export async function runBench(bench: Bench, isSmoke: boolean): Promise<Figure[]> {
  const figures: Figure[] = []
  await bench.run({
    isSmoke,
    size: (smoke, full) => (isSmoke ? smoke : full),
    compare: (variants, options) => compare(variants, { runs: isSmoke ? 1 : 5, sameChecksum: true, ...options }),
    report: (figure) => {
      if (!Number.isFinite(figure.value)) throw new Error(`${figure.id} measured ${figure.value}`)
      figures.push(figure)
    },
  })
  return figures
}

/** Median and spread of samples that a benchmark took itself, for instance latencies. */
export function summarise(samples: readonly number[]): { readonly median: number; readonly spread: number } {
  const sorted = [...samples].sort((a, b) => a - b)
  const median = percentile(sorted, 0.5)
  return { median, spread: median === 0 ? 0 : (sorted.at(-1)! - sorted[0]!) / median }
}

/** `sorted` ascends; the value below which a share `p` of the samples lies. */
export function percentile(sorted: ArrayLike<number>, p: number): number {
  return sorted[Math.min(sorted.length - 1, Math.floor(p * sorted.length))] ?? Number.NaN
}

/** On a shared machine a sample during which another process had the processor says nothing about ours. */
export function involuntarySwitches(): number {
  return process.resourceUsage().involuntaryContextSwitches
}

async function compare<Name extends string>(
  variants: Readonly<Record<Name, () => number | bigint | string | Promise<number | bigint | string>>>,
  options: { readonly runs: number; readonly sameChecksum: boolean },
): Promise<Readonly<Record<Name, Timing>>> {
  const names = Object.keys(variants) as Name[]
  const samples = new Map<Name, number[]>(names.map((name) => [name, []]))
  const checksums = new Map<Name, string>()
  for (let turn = 0; turn <= options.runs; turn++) {
    for (const name of names) {
      ;(globalThis as { gc?: () => void }).gc?.()
      const started = process.cpuUsage()
      const checksum = String(await variants[name]())
      const used = process.cpuUsage(started)
      if (turn > 0) samples.get(name)!.push((used.user + used.system) * 1000)
      const before = checksums.get(name) ?? checksum
      if (before !== checksum) throw new Error(`${name} computed ${before} and then ${checksum}`)
      checksums.set(name, checksum)
    }
  }
  if (options.sameChecksum && new Set(checksums.values()).size > 1) {
    throw new Error(`the variants disagree: ${names.map((name) => `${name} ${checksums.get(name)}`).join(', ')}`)
  }
  return Object.fromEntries(
    names.map((name) => {
      const { median, spread } = summarise(samples.get(name)!)
      return [name, { cpuNs: median, spread, checksum: checksums.get(name)! }]
    }),
  ) as Record<Name, Timing>
}
