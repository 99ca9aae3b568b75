// One suite and two properties over the model and every real index.
import { createPrefixIndex, type PrefixIndexOptions } from './create-prefix-index.js'
import { kvChainConformance } from './kv-chain.case.js'
import { kvDumpConformance } from './kv-dump.case.js'
import { inTurn } from './kv-drive.case.js'
import { kvIndexConformance } from './kv-index.case.js'
import { kvIndexAgreesWithFacts } from './kv-index-model.case.js'
import { kvPromptConformance } from './kv-prompt.case.js'
import { NaiveIndex } from './naive-index.case.js'
import type { PrefixIndex } from './prefix-index.js'

const real = (options: Omit<PrefixIndexOptions, 'seedLo' | 'seedHi'>) => (): PrefixIndex =>
  createPrefixIndex({ seedLo: 0x1234, seedHi: 0x5678, ...options })

const indexes: Record<string, () => PrefixIndex> = {
  naive: () => new NaiveIndex(),
  wasm: real({ implementation: 'wasm' }),
  ts: real({ implementation: 'ts' }),
  '3 shards': real({ shards: 3 }),
  '3 ts shards': real({ implementation: 'ts', shards: 3 }),
}

for (const [name, make] of Object.entries(indexes)) {
  const newIndex = inTurn(make)
  kvIndexConformance(name, newIndex)
  kvDumpConformance(name, newIndex)
  kvChainConformance(name, newIndex)
  kvPromptConformance(name, newIndex)
  kvIndexAgreesWithFacts(name, newIndex)
}
kvIndexAgreesWithFacts('wasm in steps', inTurn(real({ implementation: 'wasm', clearBlocksMax: 2 })), 2)
