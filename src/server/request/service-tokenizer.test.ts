import { expect, it } from 'vitest'
import { TokenService, Tokens } from '../../tokens/index.js'
import { endpointRows } from './endpoints.js'
import { createServiceTokenizer } from './service-tokenizer.js'

const [usualWorker, otherWorker] = [1n, 2n]

it.each([
  ['usual', usualWorker],
  ['other', otherWorker],
])('an engine of the %s kind that counts otherwise is no trouble of the other kind', async (kind, differing) => {
  const model = 'm'
  const tokens = new Tokens({ ids: Uint32Array.of(1, 2, 3), source: 'tokenizer', exactness: 'proven' })
  const service = new TokenService()
  await service.setModel(model, {})
  service.setOther(model, 'sglang', {})
  const others = [{ dialect: 'sglang', workerIds: new Set([otherWorker]) }] as const
  const tokenizer = createServiceTokenizer(
    {
      tokenizeRequest: () => Promise.resolve(tokens),
      counted: (...said) => service.counted(...said),
    },
    { model, others: () => others },
  )
  const prompt = await tokenizer.tokenize({
    row: endpointRows.find(({ endpoint }) => endpoint === 'completions')!,
    model,
    blockSize: 16,
    body: { prompt: 'both make the same tokens of this' },
    bytes: new Uint8Array(0),
    signal: new AbortController().signal,
  })
  if (!prompt?.tokens) throw new Error('no tokens')
  for (let at = 0; at < 4; at++)
    for (const worker of [usualWorker, otherWorker]) prompt.counted!(worker === differing ? 4 : 3, worker)
  const troubles = { usual: service.status(model).trouble, other: service.status(model, 'sglang').trouble }
  const told = expect.stringContaining('of the last 4 prompts the engine counted 4 otherwise') as string
  expect(troubles).toEqual({ usual: undefined, other: undefined, [kind]: told })
  expect(service.counts.prompts[model]!.counted).toEqual({ equal: 4, different: 4 })
  await service.close()
})
