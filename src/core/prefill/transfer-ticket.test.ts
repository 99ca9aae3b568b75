import fc from 'fast-check'
import { expect, it } from 'vitest'
import { TransferTicket } from './transfer-ticket.js'

const terms = { heldFromMs: 1_000, leaseMs: 600, marginMs: 100 }

it('is taken once, in time', () => {
  const ticket = new TransferTicket(terms)
  expect([ticket.isOpen(1_499), ticket.take(1_499), ticket.take(1_499), ticket.isOpen(1_499)]).toEqual([
    true,
    'taken',
    'used',
    false,
  ])
})

it('is late from the margin on', () => {
  const ticket = new TransferTicket(terms)
  expect([ticket.isOpen(1_500), ticket.take(1_500)]).toEqual([false, 'late'])
})

it('can be put back by who did not use it', () => {
  const ticket = new TransferTicket(terms)
  ticket.take(1_100)
  ticket.putBack()
  expect([ticket.take(1_200), ticket.take(1_300)]).toEqual(['taken', 'used'])
})

it('without a lease it never ends', () => {
  expect(new TransferTicket({ heldFromMs: 0, leaseMs: undefined, marginMs: 0 }).take(1e12)).toBe('taken')
})

// Goal: no history of takes and returns lets two hold it, or one take it late.
it('at most one holds it, and never after its time', () => {
  const step = fc.record({ ms: fc.nat(900), isReturn: fc.boolean() })
  fc.assert(
    fc.property(fc.array(step, { maxLength: 20 }), (steps) => {
      const ticket = new TransferTicket(terms)
      let holders = 0
      for (const { ms, isReturn } of steps.toSorted((a, b) => a.ms - b.ms)) {
        if (isReturn && holders > 0) {
          ticket.putBack()
          holders--
        } else if (ticket.take(1_000 + ms) === 'taken') {
          holders++
          expect(ms).toBeLessThan(500)
        }
        expect(holders).toBeLessThanOrEqual(1)
      }
    }),
  )
})
