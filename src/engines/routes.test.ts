import { expect, it } from 'vitest'
import type { EngineKind } from './engine-facts.js'
import { engineRoute } from './routes.js'

it.each<{ engine: EngineKind; path: string; at: string | undefined }>([
  { engine: 'vllm', path: '/v1/chat/completions', at: '/v1/chat/completions' },
  { engine: 'vllm', path: '/generate', at: undefined },
  { engine: 'vllm', path: '/v1/classify', at: '/classify' },
  { engine: 'vllm', path: '/v1/pooling', at: '/pooling' },
  { engine: 'sglang', path: '/generate', at: '/generate' },
  { engine: 'sglang', path: '/v1/classify', at: '/v1/classify' },
  { engine: 'sglang', path: '/classify', at: '/classify' },
  { engine: 'sglang', path: '/pooling', at: undefined },
  { engine: 'sglang', path: '/rerank', at: '/v1/rerank' },
  { engine: 'sglang', path: '/score', at: '/v1/score' },
  { engine: 'unknown', path: '/generate', at: '/generate' },
])('$engine: $path is $at', ({ engine, path, at }) => {
  expect(engineRoute(engine, path)).toBe(at)
})
