import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, expect, it } from 'vitest'
import { findInHubCache } from './find-folder.js'

const cache = mkdtempSync(join(tmpdir(), 'warmroute-cache-'))
afterAll(() => rmSync(cache, { recursive: true, force: true }))

/** `snapshot`: where the tokenizer lies, seen from the snapshots; `main`: what the cache names as its own. */
function repository(name: string, snapshot: string, main: string): void {
  const of = join(cache, name)
  for (const folder of [join(of, 'refs'), join(of, 'snapshots', snapshot)]) mkdirSync(folder, { recursive: true })
  writeFileSync(join(of, 'snapshots', snapshot, 'tokenizer.json'), '{}')
  writeFileSync(join(of, 'refs', 'main'), main)
}

it.each([
  { says: 'the folder above the snapshots', snapshot: '..', main: '..' },
  { says: 'a hidden folder', snapshot: '.part', main: '.part' },
  { says: 'a folder of a folder', snapshot: 'a/b', main: 'a/b' },
])('takes no other place for a snapshot: $says', async ({ snapshot, main }) => {
  const name = `odd${snapshot.length}`
  repository(`models--${name}`, snapshot, main)
  expect(await findInHubCache(cache, name, undefined)).toBeUndefined()
})

it.each(['.hidden', '-dash', 'a..b', 'a/b/c', 'a b'])(
  'looks for nothing that is no name of a repository: %s',
  async (model) => {
    repository(`models--${model.replaceAll('/', '--')}`, 'abc', 'abc')
    expect(await findInHubCache(cache, model, undefined)).toBeUndefined()
  },
)
