import { expect, it } from 'vitest'
import type { EngineFacts } from '../engines/index.js'
import type { ModelStatus } from '../tokens/index.js'
import type { AddressReport } from './assemble/assembly-options.js'
import { startTable } from './start-table.js'

const tokens: ModelStatus = {
  source: 'engine',
  from: 'http://gpu1:8000',
  encoder: 'engine',
  reason: 'it was not started with --enable-tokenizer-info-endpoint',
  asks: 'whole',
  tried: [],
}

function report(at: number, engine: EngineFacts['kind']['value'], more: Partial<AddressReport> = {}): AddressReport {
  return {
    workerId: BigInt(at),
    url: `http://gpu${at}:8000`,
    state: 'joined',
    absence: undefined,
    facts: { kind: { value: engine, from: 'test' } },
    model: 'm',
    role: 'aggregated',
    tokens,
    verdict: { mode: 'exact', reason: undefined, fix: undefined },
    batches: 0,
    restarts: 0,
    ...more,
  } as AddressReport
}

it('of a mixed fleet the flag is named that the engine which is asked would need, whoever stands last', () => {
  for (const fleet of [
    [report(1, 'vllm'), report(2, 'sglang')],
    [report(2, 'sglang'), report(1, 'vllm')],
  ]) {
    const advice = startTable(fleet).filter((line) => line.includes('to have it'))
    expect(advice).toEqual([
      expect.stringContaining('new ends only, and for everything, add: --enable-tokenizer-info-endpoint'),
    ])
  }
  const asked = { ...tokens, from: 'http://gpu2:8000' }
  const others = startTable([report(1, 'vllm', { tokens: asked }), report(2, 'sglang', { tokens: asked })])
  expect(others.join('\n')).toContain('not asked at all, add: warmroute serve --tokenizer <folder>')
})

it('each kind of engine of a mixed fleet says where its own tokens come from', () => {
  const sglang = { ...tokens, from: 'http://gpu2:8000', reason: 'only vLLM tells its chat template and added tokens' }
  const text = startTable([
    report(1, 'vllm', { tokens: { ...tokens, asks: 'ends' } }),
    report(2, 'sglang', { tokens: sglang }),
  ])
  expect(text.filter((line) => /engine, (ends|whole)/.test(line))).toEqual([
    expect.stringContaining('engine, ends') as string,
    expect.stringContaining('engine, whole') as string,
  ])
  const both = startTable([report(1, 'vllm'), report(2, 'sglang', { tokens: sglang })]).join('\n')
  expect(both).toContain('the vllm engine of m tokenizes every new prompt')
  expect(both).toContain('the sglang engine of m tokenizes every new prompt')
  const late = report(2, 'sglang', { tokens: sglang })
  const shown = startTable([late], [report(1, 'vllm'), late]).join('\n')
  expect(shown).toContain('the sglang engine of m tokenizes every new prompt')
  expect(shown).not.toContain('vllm')
})

it('what an engine cannot be asked for is said beside the flag that mends it', () => {
  const asked = { ...tokens, unaskable: 'responses with function calls' }
  const text = startTable([report(1, 'vllm', { tokens: asked })]).join('\n')
  expect(text).toContain('it cannot be asked for responses with function calls: those are routed by load.')
  expect(text).toMatch(/and for everything, add: --enable-tokenizer-info-endpoint; .*--tokenizer <folder>/)
  expect(startTable([report(1, 'vllm')]).join('\n')).not.toContain('cannot be asked')
})

it('thoughts that no files make known are said without a flag', () => {
  const parser = (value: string | null) => ({
    facts: { kind: { value: 'sglang', source: 'test' }, reasoningParser: { value, source: 'test' } } as EngineFacts,
  })
  const files: ModelStatus = { source: 'configured', from: '/m', encoder: 'own', reason: undefined, tried: [] }
  const lines = (value: string | null): string[] =>
    startTable([report(1, 'sglang', { ...parser(value), tokens: files })]).filter((line) => line.includes('thoughts'))
  expect([...lines(null), ...lines('qwen3')]).toEqual([])
  expect(lines('muse')).toEqual([
    '  messages to worker 1 that hold thoughts or switch thinking are routed by load: what its reasoning parser muse makes of them is not known.',
  ])
})

it('a worker that nobody knows yet is no second model', () => {
  const unknown = { facts: undefined, model: undefined, tokens: undefined, verdict: undefined, absence: 'is away' }
  const text = startTable([report(1, 'vllm'), report(2, 'vllm', unknown)]).join('\n')
  expect(text).toContain('--tokenizer <folder>')
  expect(text).not.toContain('--tokenizers')
})
