/** CPU of the loop's thread while thousands of small requests bring what is new to V8: see floods.ts. */
import { defineBench } from '../harness.js'
import type { BenchContext } from '../harness.js'
import type { Started } from './children.js'
import { ask, compileSources, sources, startChild } from './children.js'
import { floodNames, floodRequest, newsOf } from './floods.js'
import { send } from './send.js'
import type { Use } from './use.js'
import { shownHeld } from './use.js'

export const benches = [defineBench('gateway.floods', 'how long can many small requests hold the loop?', floods)]

/** If they were kept, V8 would build its table anew four times, the last one for 30 ms. */
const newsInAll = 1_200_000

async function floods(bench: BenchContext): Promise<void> {
  const code = bench.isSmoke ? sources : compileSources()
  const engines = await startChild<{ ports: number[] }>(code, './engines.child.ts')
  const asked = await startChild<{ urls: Readonly<Record<string, string>> }>(code, './asked-engines.child.ts')
  const options = { ports: engines.first.ports, isExact: true, askedUrls: asked.first.urls }
  const only = process.env['BENCH_ONLY']
  let worst = 0
  let answered = 0
  let gateway: Started<{ port: number }> | undefined
  for (const name of floodNames) {
    if (only !== undefined && !name.includes(only)) continue
    if (!bench.isSmoke) gateway?.child.disconnect() // so that none has the table of another
    if (!bench.isSmoke || !gateway) gateway = await startChild<{ port: number }>(code, './gateway.child.ts', options)
    const { child, first } = gateway
    const rounds = bench.size(2, Math.ceil(newsInAll / newsOf(name)))
    for (let round = 0; round < rounds; round++) {
      if (round === Math.min(20, rounds - 1)) await ask<Use>(child, 'watch') // the compiler needs some
      const status = await send(first.port, floodRequest(name, answered + 1))
      if (status !== 200) throw new Error(`a flood of ${name}: status ${status}`)
      answered++
    }
    const use = await ask<Use>(child, 'use')
    const { busyMaxMs = 0, collectedMs, faults, stolen, prompts } = use
    if (!bench.isSmoke)
      console.error(
        `  ${rounds} of ${name}: ${busyMaxMs.toFixed(1)} ms, collector ${collectedMs?.toFixed(1)} ms of it, ${faults} pages, by the clock ${shownHeld(use)}, ${stolen} left out, ${shown(prompts)}`,
      )
    worst = Math.max(worst, busyMaxMs)
  }
  gateway?.child.disconnect()
  engines.child.disconnect()
  asked.child.disconnect()
  bench.report({ id: 'gateway.flood_stall_max_ms', value: worst, unit: 'ms', spread: 0, checksum: String(answered) })
}

/** What became of their tokens: a flood that is refused would measure something else. */
function shown(prompts: Use['prompts']): string {
  return Object.entries(prompts)
    .filter(([, count]) => count > 0)
    .map(([what, count]) => `${count} ${what}`)
    .join(', ')
}
