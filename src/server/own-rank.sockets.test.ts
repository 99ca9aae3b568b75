// Engines with several ranks that take no pin on a route choose for themselves: nothing is claimed of the rank that was booked.
import type { Attributes, Span, Tracer } from '@opentelemetry/api'
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

it.each([
  ['vllm', '/v1/responses', 2, false],
  ['vllm', '/v1/responses', 1, true],
  ['sglang', '/v1/responses', 2, false],
  ['sglang', '/v1/messages', 2, true],
  ['trtllm', '/v1/chat/completions', 2, false],
] as const)('a prompt that comes again, %s, %s, ranks: %d', async (engine, path, dataParallelSize, isTold) => {
  const spans: Attributes[] = []
  const tracer = {
    startSpan() {
      const attributes: Attributes = {}
      spans.push(attributes)
      return {
        setAttributes: (more: Attributes) => Object.assign(attributes, more),
        addEvent() {},
        setStatus() {},
        end() {},
        spanContext: () => ({ traceId: '', spanId: '', traceFlags: 0 }),
      } as unknown as Span
    },
  } as unknown as Tracer
  const router = await InProcessRouter.create({ blockSize: 16, config: { useKvEvents: false } })
  const { url, gateway, engines } = await open({ engines: 1, engine, router, gateway: { tracer } })
  gateway.setWorker('m', { id: 1n, url: engines[0]!.url, engine, config: { ...defaultWorkerConfig, dataParallelSize } })
  const text = 'the same words again '.repeat(40)
  const body = { model: 'm', input: text, messages: [{ role: 'user', content: text }], max_tokens: 1 }
  for (let at = 0; at < 2; at++) await (await post(url, path, JSON.stringify(body))).text()
  const lines = await (await fetch(`${url}/metrics`)).text()
  const predicted = /^warmroute_cached_tokens_total\{model="m",source="predicted",worker="1"\} (\d+)/m.exec(lines)?.[1]
  const routed = /^warmroute_routed_prompt_tokens_total\{model="m",worker="1"\} (\d+)/m.exec(lines)?.[1]
  expect(Number(routed)).toBeGreaterThan(0)
  expect(predicted !== undefined && Number(predicted) > 0).toBe(isTold)
  const last = spans.at(-1)!
  expect(last['warmroute.worker_id']).toBe('1')
  expect([Number(last['warmroute.cached_tokens']) > 0, 'warmroute.dp_rank' in last]).toEqual([isTold, isTold])
})
