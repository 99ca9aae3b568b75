// Engines with several ranks that take no pin on a route choose for themselves: nothing is claimed of the rank that was booked.
import { expect, it } from 'vitest'
import { defaultWorkerConfig } from '../core/protocol/index.js'
import { InProcessRouter } from '../routing/index.js'
import { houseOfEachTest, post } from './house.case.js'

const open = houseOfEachTest()

it.each([
  ['vllm', '/v1/responses', 2, [null, null]],
  ['vllm', '/v1/chat/completions', 2, ['0', '0']],
  ['vllm', '/v1/responses', 1, ['0', '0']],
  ['sglang', '/v1/responses', 2, [null, null]],
  ['sglang', '/v1/messages', 2, ['0', '0']],
] as const)('%s, %s, ranks: %d', async (engine, path, dataParallelSize, said) => {
  const router = await InProcessRouter.create({ blockSize: 16, config: { useKvEvents: false } })
  const { url, gateway, engines } = await open({ engines: 1, engine, router })
  gateway.setWorker('m', { id: 1n, url: engines[0]!.url, engine, config: { ...defaultWorkerConfig, dataParallelSize } })
  const body = { model: 'm', input: 'a', messages: [{ role: 'user', content: 'a' }], max_tokens: 1 }
  const response = await post(url, path, JSON.stringify(body))
  await response.text()
  const headers = ['x-warmroute-worker-id', 'x-warmroute-dp-rank', 'x-warmroute-cached-tokens']
  const [worker, rank, cached] = headers.map((name) => response.headers.get(name))
  expect(worker).toBe('1')
  expect([rank === null ? null : '0', cached]).toEqual(said) // ties between ranks are drawn
})
