/** The end-to-end suite against engines that run anywhere: `npm run test:real -- URL URL`, and short against simulated ones. */
import type { ByteReport } from './byte-comparison.js'
import { compareBytes } from './byte-comparison.js'
import type { CachedReport } from './cached-tokens.js'
import { compareCached } from './cached-tokens.js'
import type { Check } from './client-checks.js'
import { runClientChecks } from './client-checks.js'
import { eventually, openRealHouse } from './real-house.js'
import type { RestartReport } from './router-restart.js'
import { killAndCompare } from './router-restart.js'

export interface RealSuiteOptions {
  readonly engineUrls: readonly string[]
  /** More words for `warmroute serve`. */
  readonly words?: readonly string[]
  /** Sequential requests whose cached tokens are compared, and requests at once after them. */
  readonly requests: number
  readonly concurrent: number
  /** Prompts that must be predicted after the router was killed and started again; 0 leaves that part out. */
  readonly afterKill: number
}

export interface RealReport {
  readonly engines: readonly string[]
  readonly checks: readonly Check[]
  readonly bytes: ByteReport
  readonly cached: CachedReport
  /** Blocks that the engines removed meanwhile, by their events. */
  readonly removedBlocks: number
  readonly restart: RestartReport | undefined
  /** After `close`: nothing may be left of any request. */
  readonly leftovers: { readonly inFlight: number; readonly engineConnections: number; readonly bookings: number }
}

export async function runRealSuite(options: RealSuiteOptions): Promise<RealReport> {
  const house = await openRealHouse(options.engineUrls, options.words)
  const { assembly } = house.served
  try {
    const engines = assembly
      .reports()
      .map(({ url, facts, verdict }) => `${url} ${facts?.kind.value} ${facts?.version?.value}, ${verdict?.mode}`)
    const checks = await runClientChecks(house)
    const bytes = await compareBytes(house)
    await house.settle()
    const cached = await compareCached(house, options.requests, options.concurrent)
    await eventually(() => assembly.gateway.inFlight === 0)
    const removedBlocks = await countRemoved(house.url)
    await house.close()
    const { inFlight, engineConnections } = assembly.gateway
    const bookings = assembly.bookingsLeft!
    const leftovers = { inFlight, engineConnections, bookings }
    const restart = options.afterKill > 0 ? await killAndCompare(options.engineUrls, options.afterKill) : undefined
    return { engines, checks, bytes, cached, removedBlocks, restart, leftovers }
  } finally {
    await house.close()
  }
}

/** Blocks that were removed, as `/workers` tells. */
async function countRemoved(url: string): Promise<number> {
  const { workers } = (await (await fetch(`${url}/workers`)).json()) as {
    readonly workers: readonly { readonly ranks: readonly { readonly removed_blocks: number }[] }[]
  }
  return workers.flatMap((worker) => worker.ranks).reduce((sum, rank) => sum + rank.removed_blocks, 0)
}

/** What does not hold, in words; empty when everything does. */
export function faultsOf({ checks, bytes, cached, restart, leftovers }: RealReport): string[] {
  return [
    ...checks.filter((it) => it.outcome === 'fail').map((it) => `${it.name}: ${it.note}`),
    ...bytes.requests
      .filter((it) => it.outcome === 'different')
      .map((it) => `bytes differ: ${it.name}\n  direct:  ${it.direct}\n  relayed: ${it.relayed}`),
    ...cached.rows
      .filter((it) => it.predicted !== it.reported)
      .map((it) => `cached tokens differ: ${JSON.stringify(it)}`),
    ...(restart?.rows ?? [])
      .filter((it) => it.predicted !== it.reported)
      .map((it) => `cached tokens differ after the restart: ${JSON.stringify(it)}`),
    ...Object.entries(leftovers)
      .filter(([, count]) => count !== 0)
      .map(([name, count]) => `${count} ${name} left`),
  ]
}
