/** The two engines as settings of one scheduler. */
import { dynamoEngine } from '../engine/engine.js'
import type { EngineOptions } from '../engine/engine.js'
import type { EngineName } from './engine-name.js'

export function engineModel(engine: EngineName, options: Partial<EngineOptions>): EngineOptions {
  const blocks = options.blocks ?? dynamoEngine.blocks
  const own: Partial<EngineOptions> =
    engine === 'vllm'
      ? // One block is the null block; evicts only when nothing is empty (0.32, as recorded).
        { copies: 'each', emptied: 'head', evicts: 'block', visible: 'scheduled', blocks: Math.max(1, blocks - 1) }
      : // A radix tree: one copy of everything, evicted by whole nodes, leaves first.
        { copies: 'merge', emptied: 'head', evicts: 'node', visible: 'computed', blocks }
  return { ...dynamoEngine, ...options, ...own }
}
