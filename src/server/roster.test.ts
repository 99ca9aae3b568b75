import fc from 'fast-check'
import { expect, it } from 'vitest'
import { Roster } from './roster.js'

interface Guest {
  readonly name: number
  seat: number
}

const guests = (count: number): Guest[] => Array.from({ length: count }, (_, name) => ({ name, seat: -1 }))

const namesOf = (all: Iterable<Guest>): number[] => Array.from(all, (it) => it.name).sort((a, b) => a - b)

// Goal: a roster is a set. Method: the same steps drive it and a Set, few members so that they come back often.
it('holds who a set would hold, after every step', () => {
  const anyStep = fc.record({ kind: fc.constantFrom('add', 'delete'), who: fc.nat(5) })
  fc.assert(
    fc.property(fc.array(anyStep, { maxLength: 60 }), (steps) => {
      const all = guests(6)
      const roster = new Roster<'seat', Guest>('seat')
      const model = new Set<Guest>()
      for (const { kind, who } of steps) {
        const guest = all[who]!
        if (kind === 'add') {
          roster.add(guest)
          model.add(guest)
        } else expect(roster.delete(guest)).toBe(model.delete(guest))
        expect(roster.size).toBe(model.size)
        expect(namesOf(roster)).toEqual(namesOf(model))
        for (const it of all) expect(roster.has(it)).toBe(model.has(it))
      }
    }),
  )
})

it('passes over those who leave while it is walked, and meets everybody else once', () => {
  const all = guests(4)
  const roster = new Roster<'seat', Guest>('seat')
  for (const guest of all) roster.add(guest)
  const met: number[] = []
  for (const guest of roster) {
    met.push(guest.name)
    if (guest.name === 0) roster.delete(all[2]!)
  }
  expect(met).toEqual([0, 1, 3])
})

it('takes nobody for a member of another roster', () => {
  const [guest] = guests(1)
  const [here, there] = [new Roster<'seat', Guest>('seat'), new Roster<'seat', Guest>('seat')]
  here.add(guest!)
  expect(there.has(guest!)).toBe(false)
  expect(there.delete(guest!)).toBe(false)
  expect(here.size).toBe(1)
})
