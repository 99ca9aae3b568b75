import { expect, it } from 'vitest'
import { exponentialBuckets } from './buckets.js'
import { CounterFamily, GaugeFamily, HistogramFamily } from './families.js'
import { Registry } from './registry.js'

it('writes labels sorted, histogram bounds last, families by name', () => {
  const registry = new Registry()
  const seconds = registry.register(
    new HistogramFamily({ name: 'b_seconds', help: 'How long.', labels: ['z', 'a'], buckets: [0.00001, 1] }),
  )
  const total = registry.register(new CounterFamily({ name: 'a_total', help: 'How many.' }))
  seconds.observe({ z: '1', a: 'x' }, 1)
  seconds.observe({ z: '1', a: 'x' }, 1.5)
  total.inc()
  expect(registry.text()).toBe(`# HELP a_total How many.
# TYPE a_total counter
a_total 1
# HELP b_seconds How long.
# TYPE b_seconds histogram
b_seconds_bucket{a="x",z="1",le="0.00001"} 0
b_seconds_bucket{a="x",z="1",le="1"} 1
b_seconds_bucket{a="x",z="1",le="+Inf"} 2
b_seconds_sum{a="x",z="1"} 2.5
b_seconds_count{a="x",z="1"} 2
`)
})

it('escapes label values and help so that no value can break out of its line', () => {
  const registry = new Registry()
  registry.register(new GaugeFamily({ name: 'g', help: 'a\nb\\', labels: ['l'] })).set({ l: 'x"\n\\' }, 1e-7)
  expect(registry.text()).toBe('# HELP g a\\nb\\\\\n# TYPE g gauge\ng{l="x\\"\\n\\\\"} 0.0000001\n')
})

it('leaves out families without series', () => {
  const registry = new Registry()
  registry.register(new GaugeFamily({ name: 'g', help: 'h', labels: ['l'] }))
  expect(registry.text()).toBe('')
})

it('drops and counts series beyond the limit of a family, and their holders do not notice', () => {
  const registry = new Registry()
  const family = registry.register(new CounterFamily({ name: 'c', help: 'h', labels: ['l'], seriesMax: 2 }))
  for (const l of ['1', '2', '3']) family.inc({ l })
  expect(registry.droppedSeries).toBe(1)
  expect(registry.text()).not.toContain('l="3"')
})

it('refuses the same name twice', () => {
  const registry = new Registry()
  registry.register(new CounterFamily({ name: 'c', help: 'h' }))
  expect(() => registry.register(new GaugeFamily({ name: 'c', help: 'h' }))).toThrow('registered already')
})

it('gives the loop a turn within a large scrape, and the slices are the whole', async () => {
  const registry = new Registry()
  const family = registry.register(
    new HistogramFamily({ name: 'h', help: 'h', labels: ['l'], buckets: exponentialBuckets(1, 2, 10) }),
  )
  for (let l = 0; l < 1000; l++) family.observe({ l: String(l) }, l)
  let pauses = 0
  const slices: string[] = []
  for await (const slice of registry.stream(() => Promise.resolve(void pauses++))) slices.push(slice)
  expect(pauses).toBeGreaterThan(3)
  expect(slices.join('')).toBe(registry.text())
})

it('asks its collectors before a scrape, until they are removed', () => {
  const registry = new Registry()
  const gauge = registry.register(new GaugeFamily({ name: 'g', help: 'h' }))
  let value = 1
  const remove = registry.onCollect(() => gauge.set({}, value))
  expect(registry.text()).toContain('g 1\n')
  value = 2
  remove()
  expect(registry.text()).toContain('g 1\n')
})

it.each([
  [-1, 'a counter never goes down'],
  [Number.NaN, 'a counter takes no NaN'],
])('ignores %s: %s', (by) => {
  const family = new CounterFamily({ name: 'c', help: 'h' })
  family.inc({}, by)
  expect(family.with().value).toBe(0)
})

it('lets the loop run between the steps of a collector, and shows what it found', async () => {
  const registry = new Registry()
  const gauge = registry.register(new GaugeFamily({ name: 'found', help: 'h' }))
  registry.onCollect(function* () {
    for (let step = 1; step <= 3; step++) {
      gauge.set({}, step)
      yield
    }
  })
  let pauses = 0
  let text = ''
  for await (const slice of registry.stream(() => Promise.resolve(void pauses++))) text += slice
  expect(text).toContain('found 3\n')
  expect(pauses).toBe(4)
})
