import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { gzipSync } from 'node:zlib'
import { afterAll, expect, it } from 'vitest'
import { readBytes, readJson } from './read-file.js'

const folder = mkdtempSync(join(tmpdir(), 'warmroute-read-file-'))
afterAll(() => rmSync(folder, { recursive: true, force: true }))

const long = Buffer.alloc(10_000, 'x')
const refused = (reason: string): object => ({ code: 'WR_TOKENS_BAD_TOKENIZER', details: { reason, folder } })

it.each([
  { says: 'as it is', name: 'plain', file: 'plain', content: long },
  { says: 'packed', name: 'packed', file: 'packed.gz', content: gzipSync(long) },
])('a file is read up to its limit, and not a byte more: $says', ({ name, file, content }) => {
  writeFileSync(join(folder, file), content)
  expect(readBytes(folder, name, 10_000)).toEqual(long)
  expect(() => readBytes(folder, name, 9999)).toThrow(expect.objectContaining(refused(`${name} is too large`)) as Error)
})

it('a file that is packed beside itself is not unpacked', () => {
  writeFileSync(join(folder, 'both'), 'plain')
  writeFileSync(join(folder, 'both.gz'), gzipSync('packed'))
  expect(readBytes(folder, 'both', 100)?.toString()).toBe('plain')
})

it('says what is wrong with a file, and nothing of one that is not there', () => {
  writeFileSync(join(folder, 'broken.gz'), 'no gzip')
  writeFileSync(join(folder, 'broken.json'), '{')
  const thrown = (reason: string): Error => expect.objectContaining(refused(reason)) as Error
  expect(() => readBytes(folder, 'broken', 100)).toThrow(thrown('broken.gz cannot be unpacked'))
  expect(() => readJson(folder, 'broken.json')).toThrow(thrown('broken.json is no JSON'))
  expect(readJson(folder, 'absent.json')).toBeUndefined()
})
