import { expect, it } from 'vitest'
import { proveSettings } from './serve-settings.js'
import { readSettings } from './settings.js'

const prove = async (...words: string[]): Promise<readonly string[]> =>
  (await proveSettings(await readSettings(words, undefined, {}), {})).workers.map(({ url }) => url)

it.each([
  [['http://a:1', 'http://a:1/'], 'one engine is named twice: http://a:1 and http://a:1'],
  [['127.0.0.1:7', '--port', '7'], 'is where this router would listen itself'],
  [['--tls-cert-path', 'no-such-file', '--tls-key-path', 'no-such-file'], 'cannot be used: ENOENT'],
  [['--tokenizer', 'no-such-folder'], 'no-such-folder has no tokenizer.json'],
  [['--router-policy-config', 'no-such-file'], 'no-such-file'],
  [['--engine-profile', 'no-such-file'], 'engine_profile: '],
])('refuses %j', async (words, message) => {
  await expect(prove(...words)).rejects.toThrow(message)
})

it('takes the workers of the settings and those of the command line, also none', async () => {
  expect(await prove('--workers', '["http://a:1"]', 'b:2')).toEqual(['http://a:1', 'http://b:2'])
  expect(await prove()).toEqual([])
})
