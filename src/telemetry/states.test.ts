import { expect, it } from 'vitest'
import { LabelText } from './families.js'
import { Registry } from './registry.js'
import { StateFamily } from './states.js'

const states = { label: 'mode', values: ['exact', 'load-only'] }

function linesOf(labels: readonly string[], show: (family: StateFamily) => void): string[] {
  const registry = new Registry()
  show(registry.register(new StateFamily({ name: 'g', help: 'h', labels, states })))
  return registry.text().split('\n').slice(2, -1)
}

it.each([
  { says: 'first', labels: ['worker', 'mode'], before: '', after: ',worker="w"' },
  { says: 'in between', labels: ['a', 'mode', 'worker'], before: 'a="w",', after: ',worker="w"' },
])('writes a line for each state, 1 for the one that holds, its label sorted: $says', ({ labels, before, after }) => {
  const others = Object.fromEntries(labels.filter((name) => name !== 'mode').map((name) => [name, 'w']))
  const lines = (...held: readonly number[]): string[] =>
    states.values.map((state, at) => `g{${before}mode="${state}"${after}} ${held[at]}`)
  expect(linesOf(labels, (family) => family.set(others, 'exact'))).toEqual(lines(1, 0))
  expect(linesOf(labels, (family) => family.set(others, 'load-only'))).toEqual(lines(0, 1))
  expect(linesOf(labels, (family) => family.set(others, 'unheard of'))).toEqual(lines(0, 0))
})

it.each([',worker="1"', ',worker=', 'w,worker=', 'w",worker=', 'w\\'])(
  'finds the place of the state by names alone, whatever the values say: %s',
  (a) => {
    const written = a.replaceAll('\\', '\\\\').replaceAll('"', '\\"')
    expect(linesOf(['a', 'mode', 'worker'], (family) => family.set({ a, worker: '2' }, 'exact'))[0]).toBe(
      `g{a="${written}",mode="exact",worker="2"} 1`,
    )
  },
)

it('keeps one series for each thing, and ends all its lines at once', () => {
  const labels = new LabelText({ worker: 'w' })
  expect(
    linesOf(['mode', 'worker'], (family) => {
      family.set(labels, 'exact')
      family.set({ worker: 'w' }, 'load-only')
      expect(family.size).toBe(1)
      expect(family.remove(labels)).toBe(true)
    }),
  ).toEqual([])
})

it('refuses to stand last: no family of ours has its state there', () => {
  expect(() => new StateFamily({ name: 'g', help: 'h', labels: ['a', 'mode'], states })).toThrow('no label after mode')
})
