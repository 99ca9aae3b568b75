import { expect, it } from 'vitest'
import type { EngineKind } from '../../engines/index.js'
import { preferredHost } from './token-hosts.js'

function worker(id: bigint, kind: EngineKind) {
  return { keeper: { id }, facts: { kind: { value: kind, source: 'test' } } }
}

it.each<[says: string, kinds: readonly EngineKind[], id: bigint | undefined]>([
  ['nobody, where no engine can be asked', ['unknown'], undefined],
  ['a vLLM before all others', ['trtllm', 'sglang', 'unknown', 'vllm'], 4n],
  ['an SGLang before TensorRT-LLM', ['trtllm', 'sglang'], 2n],
  ['the lowest id of one kind', ['sglang', 'vllm', 'vllm'], 2n],
])('asks %s, in whatever order they joined', (_, kinds, id) => {
  const workers = kinds.map((kind, at) => worker(BigInt(at + 1), kind))
  expect(preferredHost(workers)?.keeper.id).toBe(id)
  expect(preferredHost(workers.toReversed())?.keeper.id).toBe(id)
})
