/** Feeds the log of a living router to a fresh core: everything but a selector of one's own stands in the log. */
import type { ReplayResult, RouterCoreOptions } from '../core/router/index.js'
import { replay } from '../core/router/index.js'
import { newKvIndex } from './build-index.js'
import { realRandomness } from './router-ports.js'

/** Throws `WR_INVALID_LOG`. `own` is what the router was given beyond its settings: a selector, or a learned model. */
export function replayRouterLog(
  log: Uint8Array,
  own: Pick<RouterCoreOptions, 'selector' | 'model' | 'learner'> = {},
): ReplayResult {
  return replay(log, ({ config }) => ({
    ...own,
    index: config.useRemoteIndexer
      ? undefined
      : (ranks, startMs) => newKvIndex(ranks, config, {}, startMs, realRandomness),
  }))
}
