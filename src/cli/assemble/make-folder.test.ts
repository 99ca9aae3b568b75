import { mkdtempSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, it } from 'vitest'
import { makeFolder } from './make-folder.js'

let root = ''
beforeEach(() => (root = mkdtempSync(join(tmpdir(), 'folders-'))))
afterEach(() => rmSync(root, { recursive: true }))

it('makes what leads to it, for its owner only, and again without complaint', async () => {
  const path = join(root, 'a', 'b')
  await Promise.all([makeFolder(path), makeFolder(path)])
  await makeFolder(path)
  expect(statSync(path).mode & 0o777).toBe(0o700)
})

it('fails at once where none can be made: below a file, and in a file system of the kernel', async () => {
  writeFileSync(join(root, 'file'), '')
  await expect(makeFolder(join(root, 'file', 'a'))).rejects.toThrow(/ENOTDIR|EEXIST/)
  await expect(makeFolder('/proc/warmroute/a')).rejects.toThrow(/^E/)
})
