/** What following many silent ranks costs. Both ends of every connection are in the measured process. */
import { execFileSync } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import type { Bench } from '../harness.js'
import { defineBench, summarise } from '../harness.js'

const child = fileURLToPath(new URL('./idle-child.ts', import.meta.url))

export const benches: Bench[] = [
  defineBench('events.idle256', 'how much of a core do 256 silent subscriptions take?', (context) => {
    const count = context.size(8, 256)
    const milliseconds = context.size(100, 8000)
    const runs = Array.from({ length: context.size(1, 3) }, () => {
      const args = ['--import', 'tsx', child, String(count), String(milliseconds)]
      return Number(execFileSync(process.execPath, args, { encoding: 'utf8', timeout: 60_000 }))
    })
    const { median, spread } = summarise(runs)
    context.report({
      id: 'events.idle256.cpu_pct',
      value: median,
      unit: '% of a core',
      spread,
      checksum: String(count),
    })
  }),
]
