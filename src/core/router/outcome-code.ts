/** A decision as bytes, exact to the last bit: what two runs of one log are compared by. */
import type { ByteWriter } from './byte-codec.js'
import type { Decision, Dispatch } from './decision.js'
import { writePair } from './log-format.js'

/** The first byte of a decision to park. */
export const parkedCode = 2

export function writeOutcome(to: ByteWriter, decision: Decision | Dispatch['decision']): void {
  switch (decision.kind) {
    case 'picked':
      to.byte(0)
      writePair(to, decision.worker)
      to.float(decision.effectiveOverlapBlocks)
      to.float(decision.cachedTokens)
      to.float(decision.waitedMs)
      break
    case 'refused':
      to.byte(1)
      to.text(decision.error.code)
      break
    case 'parked':
      to.byte(parkedCode)
      break
    case 'refresh':
      to.byte(3)
      break
  }
}
