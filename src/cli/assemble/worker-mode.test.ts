import { expect, it } from 'vitest'
import type { EngineFacts } from '../../engines/index.js'
import type { ModeInput } from './worker-mode.js'
import { judgeMode } from './worker-mode.js'

function fact<T>(value: T) {
  return { value, source: 'test' }
}

const source = { dpRank: 0, endpoint: 'tcp://h:1', replayEndpoint: undefined, topic: '', bufferSteps: undefined }
const facts: EngineFacts = { kind: fact('vllm'), blockSize: fact(16), eventSources: fact([source]) }
const live = { isLive: true, hasStarted: true }
const good: ModeInput = { facts, blockSize: 16, hasTokens: true, feeds: [live], wasExact: false }

it.each<{ says: string; input: Partial<ModeInput>; mode: string; reason?: string; fix?: string }>([
  { says: 'live events, known tokens and equal blocks are exact', input: {}, mode: 'exact' },
  {
    says: 'a stream that has shown nothing yet is not exact',
    input: { feeds: [{ isLive: true, hasStarted: false }] },
    mode: 'approximate',
    reason: 'have not arrived',
  },
  {
    says: 'one rank without events is enough not to be exact',
    input: { feeds: [live, { isLive: false, hasStarted: false }] },
    mode: 'approximate',
  },
  {
    says: 'exact once, and then without events, is degraded',
    input: { feeds: [{ isLive: false, hasStarted: true }], wasExact: true },
    mode: 'degraded',
    reason: 'interrupted',
  },
  {
    says: 'events that are off name the flag to add',
    input: { facts: { ...facts, eventSources: fact([]) }, feeds: [] },
    mode: 'approximate',
    fix: '--kv-events-config',
  },
  {
    says: 'SGLang needs its publisher named',
    input: { facts: { ...facts, kind: fact('sglang'), eventSources: fact([]) }, feeds: [] },
    mode: 'approximate',
    fix: '"publisher":"zmq"',
  },
  {
    says: 'another block size names the flag that sets it',
    input: { facts: { ...facts, kind: fact('sglang'), blockSize: fact(64) } },
    mode: 'approximate',
    reason: '64',
    fix: '--page-size 16',
  },
  {
    says: 'everything that is missing is told: one of two flags would not do',
    input: { facts: { ...facts, blockSize: fact(64), eventSources: fact([]) }, feeds: [] },
    mode: 'approximate',
    reason: 'those of the model 16; it publishes no events',
    fix: '--block-size 16, and --kv-events-config',
  },
  {
    says: 'a prefix cache that is off is told with what is missing besides',
    input: { facts: { ...facts, hasPrefixCache: fact(false), eventSources: fact([]) }, feeds: [], hasTokens: false },
    mode: 'load-only',
    reason: 'its prefix cache is off; it publishes no events; no tokenizer knows its prompts',
    fix: '--enable-prefix-caching, and --kv-events-config',
  },
  {
    says: 'an SGLang that speculates names blocks by pairs, and so must its model',
    input: { facts: { ...facts, kind: fact('sglang'), isEagle: fact(true) }, isEagle: true },
    mode: 'exact',
  },
  {
    says: 'pairs beside a model of plain blocks are not comparable',
    input: { facts: { ...facts, kind: fact('sglang'), isEagle: fact(true) } },
    mode: 'approximate',
    reason: 'pairs',
    fix: '--speculative-algorithm',
  },
  {
    says: 'a vLLM that speculates names its blocks as any other',
    input: { facts: { ...facts, isEagle: fact(true) } },
    mode: 'exact',
  },
  {
    says: 'without tokens events cannot be compared',
    input: { hasTokens: false },
    mode: 'approximate',
    fix: '--tokenizer',
  },
  {
    says: 'an engine that gives no tokens leaves events without comparison, and the reason is said',
    input: { hasTokens: false, tokenTrouble: 'the engine answered 404 to /tokenize' },
    mode: 'approximate',
    reason: 'no tokenizer knows its prompts: the engine answered 404 to /tokenize',
    fix: '--tokenizer',
  },
  {
    says: 'without a prefix cache there is nothing to know',
    input: { facts: { ...facts, hasPrefixCache: fact(false) } },
    mode: 'load-only',
    fix: '--enable-prefix-caching',
  },
  { says: 'a policy that looks at no cache claims none', input: { blockSize: undefined }, mode: 'load-only' },
])('$says', ({ input, mode, reason, fix }) => {
  const verdict = judgeMode({ ...good, ...input })
  expect(verdict.mode).toBe(mode)
  if (reason !== undefined) expect(verdict.reason).toContain(reason)
  if (fix !== undefined) expect(verdict.fix).toContain(fix)
})

it('names no files of a model where nobody knows how its engine builds prompts', () => {
  const { mode, fix } = judgeMode({ ...good, hasTokens: false, facts: { ...facts, kind: fact('ollama' as const) } })
  expect([mode, fix]).toEqual(['approximate', undefined])
})
