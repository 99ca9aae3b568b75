/** What the gateway is told of a model, from the first engine that serves it and from the settings. */
import type { RouterConfig } from '../../core/protocol/index.js'
import type { EngineFacts } from '../../engines/index.js'
import type { DisaggSpec, ModelSpec, OtherDialect } from '../../server/index.js'
import { createServiceTokenizer } from '../../server/index.js'
import type { TokenService } from '../../tokens/index.js'
import type { Joined } from './joined.js'
import type { ModelRuntime } from './model-runtime.js'

export interface ModelSpecParts {
  readonly runtime: ModelRuntime
  readonly facts: EngineFacts
  readonly disagg: DisaggSpec
  readonly config: RouterConfig
  readonly rules: Pick<ModelSpec, 'thresholds' | 'monitor' | 'sessionAffinityTtlSecs'> | undefined
  readonly tokens: TokenService
  /** Engines of other kinds than the one by whose rules its prompts are built. */
  readonly others: () => readonly OtherDialect[]
  readonly joined: ReadonlyMap<bigint, Joined>
}

export function modelSpecOf(parts: ModelSpecParts): ModelSpec {
  const { runtime, facts, disagg, config, rules, tokens, others, joined } = parts
  const { name, blockSize, isEagle } = runtime
  return {
    name,
    blockSize,
    isEagle,
    router: runtime.port,
    tokenizer: createServiceTokenizer(tokens, { model: name, others }),
    // A cost in milliseconds learns from them how long answers are.
    tracksOutputBlocks: config.routerTrackOutputBlocks || config.policy === 'warm',
    disagg,
    minInitialWorkers: config.skipInitialWorkerWait ? 0 : config.routerMinInitialWorkers,
    routerMetrics: runtime.metrics,
    figures: () => ({ index: runtime.indexFigures }),
    feedsOf: (workerId) => joined.get(workerId)?.runtime.statusOf(workerId) ?? [],
    busyGate: config.compat === 'dynamo-1.2' ? 'all' : 'each',
    ...rules,
    get contextWindow(): number | undefined {
      return shortestContext(name, joined.values()) ?? contextOf(facts)
    },
  }
}

/** A prompt that fits here fits wherever it is sent. */
function shortestContext(model: string, joined: Iterable<Joined>): number | undefined {
  let least: number | undefined
  for (const { runtime, facts } of joined) {
    const tokens = runtime.name === model ? contextOf(facts) : undefined
    if (tokens !== undefined) least = Math.min(least ?? tokens, tokens)
  }
  return least
}

function contextOf(facts: EngineFacts): number | undefined {
  return facts.models?.value[0]?.contextTokens
}
