/** What a router does before many workers when nobody asks it anything: every worker is looked at, and none of it may hold the loop. */
import { defineBench } from '../harness.js'
import type { BenchContext } from '../harness.js'
import { ask, compileSources, sources, startChild } from './children.js'
import type { Use } from './use.js'

export const benches = [
  defineBench('gateway.fleet', 'what does it cost to look after many workers, and for how long at once?', fleet),
]

async function fleet(bench: BenchContext): Promise<void> {
  const count = bench.size(4, 300)
  const code = bench.isSmoke ? sources : compileSources()
  const engines = await startChild<{ urls: string[] }>(code, './fleet-engines.child.ts', { count })
  const router = await startChild<{ joinedMs: number; joined: number }>(code, './fleet.child.ts', engines.first)
  const { joinedMs, joined } = router.first
  const idleMs = bench.size(20, 10_000) // two intervals of every look
  await rest(bench.size(0, 6_000)) // what starting leaves behind
  const before = await ask<Use>(router.child, 'reset')
  const beganMs = performance.now()
  await rest(idleMs)
  const { cpuUs } = await ask<Use>(router.child, 'watch')
  const cpuMsPerS = (cpuUs - before.cpuUs) / (performance.now() - beganMs)
  await rest(idleMs)
  const { busyMaxMs, busyP999Ms } = await ask<Use>(router.child, 'use')
  router.child.disconnect()
  engines.child.disconnect()
  const checksum = `${joined} of ${count}`
  const report = (name: string, value: number | undefined, unit: string): void => {
    if (value !== undefined) bench.report({ id: `gateway.fleet_${name}`, value, unit, spread: 0, checksum })
  }
  report('idle_cpu_ms_per_s', cpuMsPerS, 'ms/s')
  report('idle_turn_p999_ms', busyP999Ms, 'ms')
  report('idle_turn_max_ms', busyMaxMs, 'ms')
  report('joined_ms', joinedMs, 'ms')
}

function rest(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms))
}
