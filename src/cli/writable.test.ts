import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, expect, it } from 'vitest'
import { proveWritable } from './writable.js'

const folder = mkdtempSync(join(tmpdir(), 'writable-'))
afterAll(() => rmSync(folder, { recursive: true }))

it('leaves nothing behind where nothing was, and what was there as it was', () => {
  const fresh = join(folder, 'fresh')
  proveWritable('--out', fresh)
  expect(existsSync(fresh)).toBe(false)
  const kept = join(folder, 'kept')
  writeFileSync(kept, 'words')
  proveWritable('--out', kept)
  expect(readFileSync(kept, 'utf8')).toBe('words')
  proveWritable('--out', '/dev/null')
  proveWritable('--out', undefined)
})

it.each([
  ['a folder that is not there', join(folder, 'nowhere', 'x.json'), 'ENOENT'],
  ['a folder', folder, 'EISDIR'],
])('names flag, path and reason for %s', (_, path, code) => {
  expect(() => proveWritable('--out', path)).toThrow(`--out ${path} cannot be written: ${code}`)
})
