import { expect, it } from 'vitest'
import { readSettings } from '../settings.js'
import { placesFor, proveTokenizers, tokenPlacesOf } from './token-places.js'

async function placesWith(words: readonly string[], env: Readonly<Record<string, string>>) {
  return tokenPlacesOf((await readSettings(words, undefined, env)).values.serve, env)
}

it('asks no hub unless told to, and then the one that is named', async () => {
  const env = { HF_TOKEN: 'secret', HF_HOME: '/home/models' }
  expect(await placesWith([], env)).toMatchObject({ hub: undefined, hubCache: '/home/models/hub' })
  expect((await placesWith(['--hub-download'], env)).hub).toEqual({
    endpoint: 'https://huggingface.co',
    cacheFolder: '/home/models/hub',
    token: 'secret',
  })
  const other = ['--hub-download', '--hub-endpoint', 'http://hub:8080', '--hub-cache', '/cache']
  expect((await placesWith(other, {})).hub).toMatchObject({ endpoint: 'http://hub:8080', cacheFolder: '/cache' })
  await expect(placesWith(['--hub-endpoint', 'hub'], {})).rejects.toThrow('not an http address')
})

it('gives each model the folder that is named for it, and the others the common one', async () => {
  const places = await placesWith(['--tokenizer', '/all', '--tokenizers', '{"a":"/of-a"}'], {})
  expect(['a', 'b', 'constructor'].map((model) => placesFor(model, places).path)).toEqual(['/of-a', '/all', '/all'])
})

it('refuses every named folder without a tokenizer, by the setting that names it', async () => {
  const good = 'test/fixtures/tinyllama'
  await proveTokenizers(await placesWith(['--tokenizer', good], {}))
  const bad = await placesWith(['--tokenizer', '/nope', '--tokenizers', `{"a":"${good}","b":"src"}`], {})
  await expect(proveTokenizers(bad)).rejects.toMatchObject({
    code: 'WR_INVALID_CONFIG',
    details: {
      issues: [
        { field: 'tokenizer', message: 'tokenizer: /nope has no tokenizer.json' },
        { field: 'tokenizers.b', message: 'tokenizers.b: src has no tokenizer.json' },
      ],
    },
  })
})
