/**
 * Routes four turns of two conversations over three workers. No server, no engine: only decisions. In a clone:
 * `npm run build && npx tsx examples/three-workers.ts`.
 */
import { pathToFileURL } from 'node:url'
import { createRouter } from 'warmroute'

export async function threeWorkers(): Promise<string[]> {
  const router = await createRouter({ blockSize: 16, workers: ['gpu-1', 'gpu-2', 'gpu-3'] })
  const turns = { alice: 512, bob: 700, 'alice again': 900, 'bob again': 1100 }
  const lines: string[] = []
  for (const [turn, length] of Object.entries(turns)) {
    const speaker = turn.startsWith('alice') ? 1 : 2
    const tokens = Uint32Array.from({ length }, (_, i) => speaker * 100_000 + i)
    const placement = await router.route({ tokens })
    lines.push(`${turn}: ${placement.worker}, ${placement.cachedTokens} of ${length} tokens cached`)
    placement.prefillDone() // when the first token arrives
    placement.free() // when the answer is complete
  }
  await router.close()
  return lines
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? '').href)
  for (const line of await threeWorkers()) console.log(line)
