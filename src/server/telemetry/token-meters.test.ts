import { expect, it } from 'vitest'
import { randomFrom, tokenizerFolder } from '../../../bench/tokens/texts.js'
import { createMetrics } from '../../telemetry/index.js'
import type { ModelCounts } from '../../tokens/index.js'
import { TokenService, Tokens } from '../../tokens/index.js'
import { observeTokens } from './token-meters.js'

const cache = (hits: number): { hits: number; misses: number; evictions: number } => ({ hits, misses: 2, evictions: 1 })

function counts(hits: number): ModelCounts {
  const prefixes = { ...cache(hits), turns: 0, compared: 0, refuted: 1 }
  const encoder = { pieces: cache(hits), segments: cache(hits) }
  const ends = { ...cache(hits), continued: hits, whole: 3, checked: 2, refuted: 0, askedBytes: 1, knownBytes: 1 }
  return { encoder, texts: cache(hits), prefixes, ends, cacheBytes: 7 * hits, onLoop: 3, inThreads: 4 }
}

it('shows what grew since the last scrape, begins anew with a new source, and ends with the model', () => {
  const metrics = createMetrics()
  const service = {
    modelNames: ['m'] as string[],
    source: 'folder',
    status: () => ({ source: service.source, encoder: 'own' }),
    counts: {
      pool: { done: 5, failed: 0, refused: 1, ended: 0 },
      prompts: {
        m: {
          tokenized: { 'tokenizer/proven': 9, 'request/proven': 1 },
          loadOnly: { 'media-image': 2 },
          counted: { equal: 8, different: 1 },
        },
      },
      models: { m: counts(10) } as Record<string, ModelCounts>,
      others: { m: { sglang: { ...counts(1), ids: cache(6) } } },
    },
  }
  const stop = observeTokens(metrics, service as unknown as TokenService)
  const hits = 'warmroute_token_cache_hits_total{cache="texts",model="m"}'
  expect(metrics.registry.text()).toContain(`${hits} 10\n`)
  service.counts.models['m'] = counts(15)
  let text = metrics.registry.text()
  expect(text).toContain(`${hits} 15\n`)
  expect(text).toContain('warmroute_token_cache_bytes{model="m"} 112\n') // 105, and 7 of the other kind
  expect(text).toContain('warmroute_token_cache_hits_total{cache="sglang_ids",model="m"} 6\n')
  expect(text).toContain('warmroute_token_cache_misses_total{cache="sglang_texts",model="m"} 2\n')
  expect(text).toContain('warmroute_token_cache_evictions_total{cache="texts",model="m"} 1\n')
  expect(text).toContain('warmroute_refuted_templates_total{model="m"} 1\n')
  expect(text).toContain('warmroute_tokenized_prompts_total{exactness="proven",model="m",source="tokenizer"} 9\n')
  expect(text).toContain('warmroute_load_only_prompts_total{model="m",reason="media-image"} 2\n')
  expect(text).toContain('warmroute_counted_prompts_total{model="m",result="different"} 1\n')
  expect(text).toContain('warmroute_engine_prompts_total{asked="end",model="m"} 15\n')
  expect(text).toContain('warmroute_engine_prompts_total{asked="refuted",model="m"} 0\n')
  expect(text).toContain('warmroute_token_cache_hits_total{cache="ends",model="m"} 15\n')
  expect(text).toContain('warmroute_tokenizer_tasks_total{outcome="refused"} 1\n')
  expect(text).toContain('warmroute_token_source{encoder="own",model="m",source="folder"} 1\n')

  service.counts.models['m'] = counts(4) // another source, whose counts begin at nothing
  service.source = 'engine'
  text = metrics.registry.text()
  expect(text).toContain(`${hits} 19\n`)
  expect(text).toContain('warmroute_token_source{encoder="own",model="m",source="engine"} 1\n')
  expect(text).not.toContain('source="folder"')

  service.modelNames.pop()
  service.counts.models = {}
  text = metrics.registry.text()
  expect(text).not.toContain('warmroute_token_source{')
  expect(text).not.toContain('warmroute_token_cache_bytes{')
  stop()
})

it('the caches of the tokenizer threads are counted, evictions too', async () => {
  const metrics = createMetrics()
  const service = new TokenService({ threads: 1 })
  const stop = observeTokens(metrics, service)
  try {
    await service.setModel('m', { path: tokenizerFolder('qwen3') })
    const shown = (what: string, cache: string): number => {
      const series = `warmroute_token_cache_${what}_total{cache="${cache}",model="m"} `
      const line = metrics.registry
        .text()
        .split('\n')
        .find((it) => it.startsWith(series))
      return Number(line?.slice(series.length))
    }
    const encode = async (prompt: string): Promise<void> =>
      expect(await service.tokenizeRequest('m', 'completions', { prompt })).toBeInstanceOf(Tokens)
    const heldBytes = (): number => Number(/token_cache_bytes\{model="m"\} (\d+)/.exec(metrics.registry.text())?.[1])
    const text = rareWords(100_000, 1)
    await encode(text)
    const { cacheBytes, threadCacheBytes = 0 } = service.counts.models['m']!
    expect(threadCacheBytes).toBeGreaterThan(100_000)
    expect(threadCacheBytes).toBeLessThanOrEqual(8 << 20)
    expect(heldBytes()).toBe(cacheBytes + threadCacheBytes)
    const [hits, misses] = [shown('hits', 'thread_pieces'), shown('misses', 'thread_pieces')]
    expect(misses).toBeGreaterThan(10_000)
    await encode(`again ${text}`) // begins otherwise, so that nothing is remembered of it here
    expect(shown('hits', 'thread_pieces') - hits).toBeGreaterThan(10_000)
    expect(shown('misses', 'thread_pieces') - misses).toBeLessThan(100)
    expect(shown('evictions', 'thread_pieces')).toBe(0)
    await encode(rareWords(1_500_000, 2))
    expect(shown('evictions', 'thread_pieces')).toBeGreaterThan(10_000)
    expect(shown('misses', 'pieces')).toBe(0) // nothing of it was encoded on the loop
    const before = shown('misses', 'thread_segments')
    await encode(`${rareWords(1000, 3)}<|im_end|>`.repeat(60))
    expect(shown('misses', 'thread_segments')).toBeGreaterThan(before)
    expect(shown('hits', 'thread_segments')).toBeGreaterThan(50)
  } finally {
    stop()
    await service.close()
  }
}, 60_000)

function rareWords(length: number, seed: number): string {
  const random = randomFrom(seed)
  const letter = (): string => String.fromCharCode(97 + random(26))
  let text = ''
  while (text.length < length) text += ` ${Array.from({ length: 6 }, letter).join('')}`
  return text
}
