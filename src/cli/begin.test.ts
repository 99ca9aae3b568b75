import { spawnSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { afterEach, expect, it, vi } from 'vitest'
import { flags, moduleFile } from '../../test/command.js'
import { begin } from './begin.js'

const status = process.exitCode
afterEach(() => {
  process.exitCode = status
  vi.restoreAllMocks()
})

it.each(['EMFILE', 'ENFILE'])('too few open files for the commands are one line and a status: %s', async (code) => {
  const said = vi.spyOn(console, 'error').mockImplementation(() => {})
  await begin(() => Promise.reject(Object.assign(new Error('too many open files'), { code })))
  expect(said.mock.calls).toEqual([[expect.stringMatching(/^warmroute: too few files .*ulimit -n/)]])
  expect(process.exitCode).toBe(1)
})

it('any other fault of the files is not hidden', async () => {
  const fault = Object.assign(new Error('gone'), { code: 'ERR_MODULE_NOT_FOUND' })
  await expect(begin(() => Promise.reject(fault))).rejects.toBe(fault)
})

it('nothing has to be open before that', () => {
  const imports = (file: string) => readFileSync(new URL(file, import.meta.url), 'utf8').match(/^import .*/gm)
  expect(imports('./main.ts')).toEqual(["import { begin } from './begin.js'"])
  expect(imports('./begin.ts')).toEqual([expect.stringMatching(/ from 'node:v8'$/)])
})

/** Bytes of code that are there when a module is loaded of which nothing was called, in a process of its own. */
function compiledBytes(command: string): number {
  const unused = Array.from(
    { length: 500 },
    (_, at) => `export function unused${at}(a) { return [a, a + 1, a * ${at}, { a }] }`,
  )
  const script = `
    import { getHeapCodeStatistics } from 'node:v8'
    import { begin } from '${moduleFile('cli/begin')}'
    const size = () => getHeapCodeStatistics().bytecode_and_metadata_size
    const load = async () => {
      const before = size()
      await import('data:text/javascript,' + encodeURIComponent(${JSON.stringify(unused.join('\n'))}))
      return { runCommand: async () => console.log(size() - before) }
    }
    await begin(load, '${command}')`
  const child = spawnSync(process.execPath, [...flags, '--input-type=module', '-e', script], { encoding: 'utf8' })
  expect(child.stderr).toBe('')
  return Number(child.stdout)
}

it('what serves is compiled before the first request, and a word of help does not wait for that', () => {
  const [served, helped] = [compiledBytes('serve'), compiledBytes('--help')]
  expect(served).toBeGreaterThan(500 * 40)
  expect(helped).toBeLessThan(served / 2)
})
