/** What the token service knows of itself, brought into the metrics before each scrape. */
import type { Labels, Metrics } from '../../telemetry/index.js'
import type { CacheCounts, ModelCounts, TokenService } from '../../tokens/index.js'

/** Counters of the service only grow, but begin anew with a model's next source. */
interface CounterLike {
  inc(labels: Labels, by: number): void
}

/** Shows the service's counts until the returned function is called. */
export function observeTokens(metrics: Metrics, service: TokenService): () => void {
  const last = new Map<string, number>()
  let sources = new Map<string, Labels>()
  return metrics.registry.onCollect(() => {
    const { pool, prompts, models, others } = service.counts
    for (const [outcome, count] of Object.entries(pool)) raise('tasks', metrics.tokenizerTasks, { outcome }, count)
    for (const [model, { tokenized, loadOnly, counted }] of Object.entries(prompts)) {
      for (const [how, count] of Object.entries(tokenized)) {
        const [source = '', exactness = ''] = how.split('/')
        raise('tokenized', metrics.tokenizedPrompts, { model, source, exactness }, count)
      }
      for (const [reason, count] of Object.entries(loadOnly))
        raise('load-only', metrics.loadOnlyPrompts, { model, reason }, count)
      for (const [result, count] of Object.entries(counted))
        raise('counted', metrics.countedPrompts, { model, result }, count)
    }
    for (const [model, counts] of Object.entries(models)) if (counts) showModel(model, counts, others[model] ?? {})
    showSources()
  })

  function showModel(model: string, counts: ModelCounts, others: Readonly<Record<string, ModelCounts>>): void {
    const {
      encoder,
      inThread,
      texts,
      ids,
      answers,
      prefixes,
      ends,
      cacheBytes,
      threadCacheBytes = 0,
      onLoop,
      inThreads,
    } = counts
    const otherBytes = Object.values(others).reduce((sum, it) => sum + it.cacheBytes, 0)
    metrics.tokenCacheBytes.set({ model }, cacheBytes + threadCacheBytes + otherBytes)
    raise('encoded', metrics.encodedTexts, { model, place: 'loop' }, onLoop)
    raise('encoded', metrics.encodedTexts, { model, place: 'thread' }, inThreads)
    raise('refuted', metrics.refutedTemplates, { model }, prefixes?.refuted ?? 0)
    if (ends) {
      const asked = { end: ends.continued, whole: ends.whole, checked: ends.checked, refuted: ends.refuted }
      for (const [what, count] of Object.entries(asked))
        raise('asked', metrics.engineEnds, { model, asked: what }, count)
    }
    const caches = {
      pieces: encoder?.pieces,
      segments: encoder?.segments,
      thread_pieces: inThread?.pieces,
      thread_segments: inThread?.segments,
      texts,
      ids,
      answers,
      renderings: prefixes,
      ends,
    }
    for (const [cache, it] of Object.entries(caches)) if (it) showCache({ model, cache }, it)
    for (const [kind, { texts: answered, ids: known }] of Object.entries(others)) {
      showCache({ model, cache: `${kind}_texts` }, answered)
      if (known) showCache({ model, cache: `${kind}_ids` }, known)
    }
  }

  function showCache(labels: Labels, { hits, misses, evictions }: CacheCounts): void {
    raise('hits', metrics.tokenCacheHits, labels, hits)
    raise('misses', metrics.tokenCacheMisses, labels, misses)
    raise('evictions', metrics.tokenCacheEvictions, labels, evictions)
  }

  /** One series for each model; the one before ends when another source serves it. */
  function showSources(): void {
    const now = new Map<string, Labels>()
    for (const model of service.modelNames) {
      const { source, encoder } = service.status(model)
      now.set(model, { model, source, encoder })
    }
    for (const [model, labels] of sources) {
      if (JSON.stringify(now.get(model)) !== JSON.stringify(labels)) metrics.tokenSource.remove(labels)
      if (!now.has(model)) forget(model)
    }
    for (const labels of now.values()) metrics.tokenSource.set(labels, 1)
    sources = now
  }

  function forget(model: string): void {
    metrics.tokenCacheBytes.remove({ model })
    for (const key of last.keys()) if (key.includes(`"model":${JSON.stringify(model)}`)) last.delete(key)
  }

  function raise(name: string, family: CounterLike, labels: Labels, count: number): void {
    const key = `${name} ${JSON.stringify(labels)}`
    const before = last.get(key) ?? 0
    last.set(key, count)
    family.inc(labels, count >= before ? count - before : count)
  }
}
