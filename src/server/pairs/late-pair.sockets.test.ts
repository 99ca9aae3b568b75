// SGLang servers that joined while a request was on its way: it was not looked at for them, and must be before a prefill gets it.
import { expect, it, vi } from 'vitest'
import { InProcessRouter } from '../../routing/index.js'
import { answerChat, startFakeEngine } from '../fake-engine.case.js'
import { errorOf, post } from '../house.case.js'
import type { WorkerSpec } from '../options.js'
import { FakePair, openPairHouse } from './fake-pair.case.js'

it.each([
  [{ top_k: 2 ** 40 }, 'WR_INVALID_BODY'],
  [{ stop_token_ids: [1] }, undefined],
])('a request goes to both of them or to nobody: %j', async (more, code) => {
  const pair = await FakePair.start('sglang', 5_000, [1, 1])
  const other = await startFakeEngine(answerChat)
  const allRounder: WorkerSpec = { id: 50n, url: other.url, engine: 'vllm', role: 'aggregated' }
  let goOn = (): void => {}
  const joined = new Promise<void>((resolve) => (goOn = resolve))
  const tokenize = vi.fn(() => joined.then(() => undefined))
  const house = await openPairHouse({
    pair,
    newRouter: () => InProcessRouter.create({ blockSize: 16, config: { useKvEvents: false } }),
    model: { workers: [allRounder], tokenizer: { tokenize, idMax: 999 } },
  })
  const answer = post(house.url, '/v1/completions', JSON.stringify({ model: 'm', prompt: 'x', ...more }))
  await vi.waitUntil(() => tokenize.mock.calls.length === 1, 60_000)
  house.gateway.setWorker('m', pair.spec('prefill', 0))
  house.gateway.setWorker('m', pair.spec('decode', 0))
  await vi.waitUntil(() => house.inner.length === 1, 60_000)
  goOn()
  const response = await answer
  if (code === undefined) expect([response.status, await response.text()]).toEqual([200, expect.anything()])
  else expect(await errorOf(response)).toMatchObject({ status: 400, code })
  const count = code === undefined ? 1 : 0
  expect([...pair.prefill, ...pair.decode, other].map(({ seen }) => seen.length)).toEqual([count, count, 0])
  await house.close()
  await pair.close()
  await other.close()
  expect(pair.wrongs).toEqual([])
})
