// What the command tells the collector: in a process of its own each time, since such a setting is the whole process's.
import { spawnSync } from 'node:child_process'
import { expect, it } from 'vitest'
import { flags, moduleFile } from '../../test/command.js'

const script = `import { setCollector } from '${moduleFile('cli/collector')}'; console.log(setCollector().join(' '))`
const growth = '--heap-growing-percent=150'
const rest = '--gc-memory-reducer-start-delay-ms=600000'

function run(...collector: readonly string[]): { readonly out: string; readonly errors: string } {
  const child = spawnSync(process.execPath, [...flags, ...collector, '--input-type=module', '-e', script], {
    encoding: 'utf8',
  })
  return { out: child.stdout.trim(), errors: child.stderr }
}

it('sets what this version of Node knows', () => {
  expect(run()).toEqual({ out: `${growth} ${rest}`, errors: '' })
})

it('leaves alone what the process was started with', () => {
  expect(run('--heap-growing-percent=20')).toEqual({ out: rest, errors: '' })
  expect(run('--heap_growing_percent=20')).toEqual({ out: rest, errors: '' })
  expect(run('--gc-memory-reducer-start-delay-ms=8000')).toEqual({ out: growth, errors: '' })
})
