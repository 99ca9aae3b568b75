import fc from 'fast-check'
import { expect, it } from 'vitest'
import { EngineTrouble, failuresMax } from './engine-trouble.js'

type Outcome = 'tokens' | 'failed' | number

const anyOutcomes = fc.array(
  fc.oneof(
    { weight: 1, arbitrary: fc.constant<Outcome>('tokens') },
    { weight: 4, arbitrary: fc.constantFrom<Outcome[]>('failed', 400, 404, 405, 422) },
  ),
  { maxLength: 30 },
)

/** The rule in one sentence: the last outcomes that say something of the engine are all failures, and enough of them. */
function isInTrouble(outcomes: readonly Outcome[]): boolean {
  const first = outcomes.indexOf('tokens')
  const telling = outcomes.filter((it, at) => !(first >= 0 && at > first && (it === 400 || it === 422)))
  const since = telling.slice(telling.lastIndexOf('tokens') + 1)
  return since.length >= failuresMax
}

it('an engine is in trouble exactly while its last answers had no tokens, and refused requests are not its fault', () => {
  fc.assert(
    fc.property(anyOutcomes, (outcomes) => {
      const trouble = new EngineTrouble()
      outcomes.forEach((outcome, at) => {
        if (outcome === 'tokens') trouble.answered()
        else if (outcome === 'failed') trouble.failed('it failed')
        else trouble.refused('/tokenize', outcome)
        expect(trouble.reason !== undefined).toBe(isInTrouble(outcomes.slice(0, at + 1)))
      })
    }),
  )
})

it('says what the last failure was', () => {
  const trouble = new EngineTrouble()
  for (const status of [404, 404, 405]) trouble.refused('/tokenize', status)
  expect(trouble.reason).toBe('the engine answered 405 to /tokenize')
})
