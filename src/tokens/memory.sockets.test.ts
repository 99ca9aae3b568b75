// In a process of its own, whose memory is nobody else's.
import { execFile } from 'node:child_process'
import { promisify } from 'node:util'
import { expect, it } from 'vitest'

const args = ['--import', 'tsx', 'scripts/fuzz-tokens.ts', 'memory', '--cases', '1000000', '--seed', '7']

it('stays within 32 MB of caches under a million distinct texts, and does not grow', async () => {
  const { stdout } = await promisify(execFile)(process.execPath, args, { timeout: 280_000 })
  const { result } = JSON.parse(stdout) as { result: string }
  const [, cachedMb, forgotten] = /^ok: caches at most ([0-9.]+) MB, ([0-9]+) texts forgotten/.exec(result) ?? []
  expect(Number(cachedMb)).toBeLessThanOrEqual(32)
  expect(Number(forgotten)).toBeGreaterThan(900_000)
}, 300_000)
