/** Where versions of the followed tracker differ: one rule per difference, and what each compatibility mode chooses. */
import type { CompatMode } from '../protocol/index.js'
import type { PrefillDecay } from './prefill-queue.js'

export interface SequenceRules {
  readonly prefillDecay: PrefillDecay
  /** `always` also tells peers of output blocks and of marks that changed nothing; `changes` keeps these at home. */
  readonly loadPublication: 'always' | 'changes'
  /** A replica adds an id that is booked already: the first booking stays, or the latest takes its place. */
  readonly replicaOwner: 'first' | 'latest'
  /** A replica marks or frees: it must name the worker of the booking, or the booking is followed wherever it is. */
  readonly replicaTarget: 'named' | 'booked'
}

const rulesOf: Readonly<Record<CompatMode, SequenceRules>> = {
  default: { prefillDecay: 'anchor', loadPublication: 'changes', replicaOwner: 'first', replicaTarget: 'named' },
  'dynamo-1.2': { prefillDecay: 'anchor', loadPublication: 'always', replicaOwner: 'latest', replicaTarget: 'booked' },
  'dynamo-1.5': { prefillDecay: 'full', loadPublication: 'changes', replicaOwner: 'first', replicaTarget: 'named' },
}

export function sequenceRulesOf(compat: CompatMode): SequenceRules {
  return rulesOf[compat]
}
