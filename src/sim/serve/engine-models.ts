/** The two engines as settings of one scheduler. */
import { dynamoEngine } from '../engine/engine.js'
import type { EngineOptions } from '../engine/engine.js'
import type { EngineName } from './engine-name.js'

export function engineModel(engine: EngineName, options: Partial<EngineOptions>): EngineOptions {
  const blocks = options.blocks ?? dynamoEngine.blocks
  const own: Partial<EngineOptions> =
    engine === 'vllm'
      ? // One block is the null block; evicts only when nothing is empty (0.32, as recorded).
        { copies: 'each', emptied: 'head', visible: 'scheduled', blocks: Math.max(1, blocks - 1) }
      : // Evicts only when nothing is free, and its tree keeps one copy of everything.
        { copies: 'merge', emptied: 'head', visible: 'computed', blocks }
  return { ...dynamoEngine, ...options, ...own }
}
