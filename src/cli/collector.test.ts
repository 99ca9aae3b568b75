// What the command tells the collector: in a process of its own each time, since such a setting is the whole process's.
import { spawnSync } from 'node:child_process'
import { expect, it } from 'vitest'

const script = `import { letHeapGrow } from './src/cli/collector.ts'; console.log(letHeapGrow())`

function run(...flags: readonly string[]): { readonly out: string; readonly errors: string } {
  const child = spawnSync(process.execPath, ['--import', 'tsx', ...flags, '--input-type=module', '-e', script], {
    encoding: 'utf8',
  })
  return { out: child.stdout.trim(), errors: child.stderr }
}

it('sets a growth that this version of Node knows', () => {
  expect(run()).toEqual({ out: 'true', errors: '' })
})

it('leaves a growth alone that the process was started with', () => {
  expect(run('--heap-growing-percent=20')).toEqual({ out: 'false', errors: '' })
  expect(run('--heap_growing_percent=20')).toEqual({ out: 'false', errors: '' })
})
