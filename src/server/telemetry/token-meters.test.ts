import { expect, it } from 'vitest'
import { createMetrics } from '../../telemetry/index.js'
import type { ModelCounts, TokenService } from '../../tokens/index.js'
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
      prompts: { m: { tokenized: { 'tokenizer/proven': 9, 'request/proven': 1 }, loadOnly: { 'media-image': 2 } } },
      models: { m: counts(10) } as Record<string, ModelCounts>,
    },
  }
  const stop = observeTokens(metrics, service as unknown as TokenService)
  const hits = 'warmroute_token_cache_hits_total{cache="texts",model="m"}'
  expect(metrics.registry.text()).toContain(`${hits} 10\n`)
  service.counts.models['m'] = counts(15)
  let text = metrics.registry.text()
  expect(text).toContain(`${hits} 15\n`)
  expect(text).toContain('warmroute_token_cache_bytes{model="m"} 105\n')
  expect(text).toContain('warmroute_token_cache_evictions_total{cache="texts",model="m"} 1\n')
  expect(text).toContain('warmroute_refuted_templates_total{model="m"} 1\n')
  expect(text).toContain('warmroute_tokenized_prompts_total{exactness="proven",model="m",source="tokenizer"} 9\n')
  expect(text).toContain('warmroute_load_only_prompts_total{model="m",reason="media-image"} 2\n')
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
