/** `warmroute serve` before simulated engines for tests: as an operator would start it, and nothing left after each test. */
import { afterEach } from 'vitest'
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
