/**
 * The same tests on both clocks: simulated servers on sockets of the system, where time is real, and inside this process, where
 * it passes only when nothing else can happen. What a test says is the same for both.
 */
import { vi } from 'vitest'
import type { AskOptions, Said } from './ask-engine.case.js'
import { askEngine } from './ask-engine.case.js'
import type { SimEngine } from './sim-engine.js'
import { startSimEngineIn } from './sim-engine.js'
import type { SimEngineOptions } from './sim-options.js'
import { realWorld } from './sim-world.js'
import { VirtualWorld } from './virtual-world.js'

/** Where a test's engines run. */
export interface Stage {
  start(options: SimEngineOptions): Promise<SimEngine>
  /** POST with a body, GET without. Rejects when nobody answers. */
  ask(engine: Pick<SimEngine, 'port'>, path: string, body?: object, options?: AskOptions): Promise<Said>
  /** Waits until the check does not throw. */
  until(check: () => void): Promise<void>
  /** Milliseconds of its clock. */
  now(): number
  close(): Promise<void>
}

export const clocks: readonly (readonly [name: string, open: () => Stage])[] = [
  ['real', () => stageOn(undefined)],
  ['virtual', () => stageOn(new VirtualWorld())],
]

function stageOn(virtual: VirtualWorld | undefined): Stage {
  const engines: SimEngine[] = []
  const during = <T>(work: Promise<T>): Promise<T> => (virtual ? virtual.during(work) : work)
  const outside = virtual ?? realWorld()
  return {
    async start(options) {
      const events = virtual ? ({ events: false } as const) : {}
      const engine = await startSimEngineIn(virtual ?? realWorld(), { ...options, ...events })
      engines.push(engine)
      return engine
    },
    ask: (engine, path, body, options = {}) => during(askEngine(outside, engine.port, path, body, options)),
    until: (check) => (virtual ? virtual.until(() => holds(check)) : vi.waitFor(check)),
    now: () => outside.clock.now(),
    async close() {
      for (const engine of engines.splice(0)) await during(engine.close())
    },
  }
}

function holds(check: () => void): boolean {
  try {
    check()
    return true
  } catch {
    return false
  }
}
