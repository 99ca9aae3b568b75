import { kvDumpConformance } from './kv-dump.case.js'
import { kvIndexConformance } from './kv-index.case.js'
import { kvIndexAgreesWithFacts } from './kv-index-model.case.js'
import { NaiveIndex } from './naive-index.case.js'

kvIndexConformance('naive', () => new NaiveIndex())
kvDumpConformance('naive', () => new NaiveIndex())
kvIndexAgreesWithFacts('naive', () => new NaiveIndex())
