import { expect, it } from 'vitest'
import { readText } from '../../test/recordings.js'
import { readOrcaHeader, readSglangLoad, readSglangLoads, readVllmLoad } from './load-signals.js'

it('reads each rank of a recorded vLLM', () => {
  const idle = { runningRequests: 0, waitingRequests: 0, kvUsage: 0, usedTokens: undefined, capacityTokens: undefined }
  expect(readVllmLoad(readText('vllm/metrics-dp2.txt.gz'))).toEqual([
    { dpRank: 0, ...idle },
    { dpRank: 1, ...idle },
  ])
})

it('reads a recorded SGLang, from its metrics and from its loads', () => {
  expect(readSglangLoad(readText('sglang/metrics.txt.gz'))).toEqual([
    { dpRank: 0, runningRequests: 0, waitingRequests: 0, kvUsage: 0, usedTokens: 32, capacityTokens: 9600 },
  ])
  const probes = JSON.parse(readText('sglang/probes.json')) as Record<string, { body: string }>
  expect(readSglangLoads(probes['/v1/loads?include=core']!.body)).toEqual([
    { dpRank: 0, runningRequests: 0, waitingRequests: 0, kvUsage: 0, usedTokens: 0, capacityTokens: 9600 },
  ])
})

it('takes exactly the family it names, and survives nonsense', () => {
  const text = [
    'vllm:num_requests_waiting_by_reason{engine="0",reason="deferred"} 9',
    'vllm:num_requests_waiting{engine="0",model_name="a\\"b,c=\\"d"} 2.0',
    'vllm:num_requests_running{engine="x"} 5',
    'vllm:num_requests_running{engine="0"} NaN',
    'vllm:kv_cache_usage_perc{engine="0"} 0.5 1700000000',
    'vllm:num_requests_running',
  ].join('\n')
  expect(readVllmLoad(text)).toMatchObject([{ dpRank: 0, runningRequests: 0, waitingRequests: 2, kvUsage: 0.5 }])
  for (const body of ['', '{', '{"loads":[3,{}]}']) expect(readSglangLoads(body)).toEqual([])
})

it('reads the load header in both of its formats', () => {
  const expected = { kv_cache_usage_perc: 0.4, num_requests_waiting: 0 }
  const text = 'TEXT named_metrics.kv_cache_usage_perc=0.4, named_metrics.num_requests_waiting=0.0'
  expect(readOrcaHeader(text)).toEqual(expected)
  expect(readOrcaHeader(`JSON ${JSON.stringify({ named_metrics: expected })}`)).toEqual(expected)
  expect(readOrcaHeader('nonsense')).toEqual({})
})
