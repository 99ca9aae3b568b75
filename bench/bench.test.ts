// Every benchmark runs here once, small, so that none rots between the days somebody wants its figure.
import { expect, it } from 'vitest'
import { globSync } from '../scripts/files.js'
import type { Bench } from './harness.js'
import { defineBench, runBench } from './harness.js'

for (const path of globSync('bench', /\.bench\.ts$/)) {
  const { benches } = (await import(`../${path}`)) as { benches: readonly Bench[] }
  for (const bench of benches) {
    it(`${bench.name} still runs`, async () => {
      const figures = await runBench(bench, true)
      expect(figures.length).toBeGreaterThan(0)
      expect(new Set(figures.map((figure) => figure.id)).size).toBe(figures.length)
    }, 60_000)
  }
}

it('refuses to compare variants that computed different things', async () => {
  const bench = defineBench('canary', 'does the harness look?', async ({ compare }) => {
    await compare({ right: () => 1, wrong: () => 2 })
  })
  await expect(runBench(bench, true)).rejects.toThrow('the variants disagree')
})
