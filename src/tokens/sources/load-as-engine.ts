/**
 * A model's files, read as the engine that serves it reads them. Which way that is depends on its version, and on how it was started; so
 * where our tokens differ from its own, the other ways are tried, and the one that it agrees with is taken.
 */
import type { ModelTokens } from '../model/model-tokens.js'
import type { Reading } from '../model/readings.js'
import type { Comparison } from '../parity/compare-with-engine.js'

export interface ReadAsEngine {
  readonly load: (reading: Reading) => Promise<ModelTokens>
  /** Left out: there is no engine to ask. */
  readonly compare?: ((source: ModelTokens) => Promise<Comparison>) | undefined
}

export interface LoadedAsEngine {
  readonly source: ModelTokens
  /** How its tokens differ from the engine's, in words. */
  readonly trouble: string | undefined
}

/** Throws what the usual way throws, where no other serves. */
export async function loadAsEngine(
  { load, compare }: ReadAsEngine,
  signal: AbortSignal | undefined,
): Promise<LoadedAsEngine> {
  if (!compare) return { source: await load('built'), trouble: undefined }
  const attempt = async (reading: Reading): Promise<LoadedAsEngine & Comparison> => {
    const source = await load(reading)
    const comparison = await compare(source)
    return { source, trouble: comparison.difference, ...comparison }
  }
  const [usual] = await Promise.allSettled([attempt('built')])
  signal?.throwIfAborted()
  if (usual.status === 'fulfilled' && usual.value.trouble === undefined) return confirmed(usual.value)
  const others = usual.status === 'fulfilled' ? usual.value.source.otherReadings : (['written', 'switched'] as const)
  for (const reading of others) {
    const [other] = await Promise.allSettled([attempt(reading)])
    signal?.throwIfAborted()
    if (other.status === 'fulfilled' && isAgreed(other.value)) return confirmed(other.value)
  }
  if (usual.status === 'rejected') throw usual.reason
  return usual.value
}

function isAgreed({ compared, difference }: Comparison): boolean {
  return compared > 0 && difference === undefined
}

function confirmed(loaded: LoadedAsEngine & Comparison): LoadedAsEngine {
  if (isAgreed(loaded)) loaded.source.confirm()
  return { source: loaded.source, trouble: undefined }
}
