// What a model is served by that is replaced while it runs, and what engines of another kind than the usual one are told.
import { afterAll, expect, it } from 'vitest'
import { prose, tokenizerFolder } from '../../bench/tokens/texts.js'
import { tinyllamaFolder } from './real-tokenizers.case.js'
import { TokenService } from './token-service.js'

const service = new TokenService({ threads: 1 })
afterAll(() => service.close())

it('a request is read by the rules of the engine that it is for', async () => {
  await service.setModel('two kinds', { path: tinyllamaFolder, rules: { dialect: 'vllm' } })
  service.setOther('two kinds', 'sglang', {})
  const body = { prompt: [5, 6, 7], truncate_prompt_tokens: 2 } // which SGLang does not know
  const asked = (['vllm', 'sglang'] as const).map((dialect) =>
    service.tokenizeRequest('two kinds', 'completions', body, {}, dialect === 'vllm' ? undefined : dialect),
  )
  expect(await Promise.all(asked)).toMatchObject([{ ids: Uint32Array.of(6, 7) }, { ids: Uint32Array.of(5, 6, 7) }])
}, 60_000)

it('a model stays as it is where the named path does not serve, or only a source behind its own', async () => {
  const gpt2 = tokenizerFolder('gpt2')
  const refused = { code: 'WR_TOKENS_BAD_TOKENIZER' }
  await service.setModel('kept', { model: tinyllamaFolder })
  await expect(service.replaceModel('kept', { path: '/nowhere', model: gpt2 })).rejects.toMatchObject(refused)
  expect(service.status('kept')).toMatchObject({ source: 'folder', from: tinyllamaFolder })
  await service.replaceModel('kept', { path: tinyllamaFolder })
  await expect(service.replaceModel('kept', { model: gpt2 })).rejects.toMatchObject(refused)
  expect(service.status('kept')).toMatchObject({ source: 'configured', from: tinyllamaFolder })
}, 60_000)

it('a model has caches of the size that it was given, and texts no longer than it may have', async () => {
  await service.setModel('bounded', { path: tinyllamaFolder, cacheBytes: 99_999, textMax: 5000 })
  for (let seed = 0; seed < 40; seed++)
    await service.tokenizeRequest('bounded', 'completions', { prompt: prose(4900, seed) }, { deadlineMs: 60_000 })
  const { cacheBytes, texts } = service.counts.models['bounded']!
  expect(cacheBytes).toBeLessThanOrEqual(99_999)
  expect(texts.evictions).toBeGreaterThan(0)
  const long = await service.tokenizeRequest('bounded', 'completions', { prompt: prose(5001, 1) })
  expect(long).toMatchObject({ loadOnly: 'too-long' })
}, 60_000)

it('what was counted of a model outlives its source, and what was shown of that does not', async () => {
  await service.setModel('counted', { path: tinyllamaFolder })
  await service.tokenizeRequest('counted', 'completions', { prompt: 'a few words' })
  for (let prompt = 0; prompt < 4; prompt++) service.counted('counted', 1, 2)
  expect(service.status('counted').trouble).toContain('otherwise')
  await service.setModel('counted', { path: tinyllamaFolder })
  expect(service.status('counted').trouble).toBeUndefined()
  expect(service.counts.prompts['counted']).toMatchObject({
    tokenized: { 'tokenizer/proven': 1 },
    counted: { different: 4 },
  })
  service.removeModel('counted')
  await service.setModel('counted', { path: tinyllamaFolder })
  expect(service.counts.prompts['counted']).toMatchObject({ tokenized: {}, counted: { different: 0 } })
})

it('a model that was removed is not brought back by what still searches for it', async () => {
  const searching = service.setModel('removed', { path: tinyllamaFolder })
  service.removeModel('removed')
  expect(await searching).toMatchObject({ source: 'none' })
  expect(service.modelNames).not.toContain('removed')
})

it('one that was removed is not announced again by those who have not heard of it', () => {
  service.announce('seen')
  service.removeModel('seen')
  service.announce('seen')
  expect(service.modelNames).not.toContain('seen')
})
