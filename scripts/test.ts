/**
 * `npm test`: everything that must hold before a change lands. Ends with one line, `N passed, N failed`.
 * Arguments are handed to vitest, and then only vitest runs: `npm test -- src/core/hashing`.
 */
import { spawnSync } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { runSteps } from './run-step.js'

const only = process.argv.slice(2)
if (only.length === 0) {
  runSteps([
    { name: 'check', command: ['npm', 'run', '--silent', 'check'], live: true },
    { name: 'build', command: ['npm', 'run', '--silent', 'build'], live: true },
    { name: 'package', command: ['publint', '--strict'] },
    { name: 'package types', command: ['attw', '--pack', '.', '--profile', 'esm-only'] },
    { name: 'api report', command: ['npm', 'run', '--silent', 'api:report', '--', '--check'] },
    { name: 'unused code', command: ['knip'] },
  ])
}

const folder = mkdtempSync(join(tmpdir(), 'warmroute-test-'))
const report = join(folder, 'report.json')
const vitest = spawnSync(
  'vitest',
  ['run', '--reporter=default', '--reporter=json', `--outputFile.json=${report}`, ...only],
  {
    stdio: 'inherit',
    env: { ...process.env, ...(only.length === 0 ? { TESTS_HAVE_BUILT: 'true' } : {}) }, // see test/command.ts
  },
)
const counts = readCounts(report)
rmSync(folder, { recursive: true, force: true })
console.log(`${counts.passed} passed, ${counts.failed} failed, ${counts.skipped} skipped`)
if (process.env['CI'] === 'true' && counts.skipped > 0) {
  console.log('tests were skipped, and under CI=true nothing may be')
  process.exit(1)
}
process.exit(vitest.status ?? 1)

interface Counts {
  readonly passed: number
  readonly failed: number
  readonly skipped: number
}

function readCounts(path: string): Counts {
  try {
    const json = JSON.parse(readFileSync(path, 'utf8')) as Record<string, number>
    return {
      passed: json['numPassedTests'] ?? 0,
      failed: json['numFailedTests'] ?? 0,
      skipped: (json['numPendingTests'] ?? 0) + (json['numTodoTests'] ?? 0),
    }
  } catch {
    return { passed: 0, failed: 1, skipped: 0 } // vitest died before it could write its report
  }
}
