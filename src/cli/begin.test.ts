import { readFileSync } from 'node:fs'
import { afterEach, expect, it, vi } from 'vitest'
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
  expect(imports('./begin.ts')).toBeNull()
})
