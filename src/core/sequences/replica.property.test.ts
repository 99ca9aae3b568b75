import { describe, it } from 'vitest'
import { checkBadNetwork, checkGoodNetwork } from './replica-model.case.js'

describe.each(['default', 'dynamo-1.2', 'dynamo-1.5'] as const)('under the rules of %s', (compat) => {
  it('each side carries what it was told, after every step, and nothing outlives its expiry', () => {
    checkBadNetwork(compat, { numRuns: 100 })
  })

  it('both sides agree where every event arrives in order and ids do not clash', () => {
    checkGoodNetwork(compat, { numRuns: 40 })
  })
})
