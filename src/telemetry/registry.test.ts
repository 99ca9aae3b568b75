import { setImmediate } from 'node:timers/promises'
import fc from 'fast-check'
import { expect, it } from 'vitest'
import { exponentialBuckets } from './buckets.js'
import { CounterFamily, GaugeFamily, HistogramFamily, LabelText } from './families.js'
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

it('takes labels that were written once for families of the same labels, and no others', () => {
  const labels = new LabelText({ z: '"', a: '1' })
  const registry = new Registry()
  const families = ['f', 'g'].map((name) => registry.register(new GaugeFamily({ name, help: 'h', labels: ['a', 'z'] })))
  for (const family of families) family.set(labels, 1)
  for (const family of families) family.set({ a: '1', z: '"' }, 2) // the same series
  expect(registry.text().match(/^\w+\{.*$/gm)).toEqual(['f{a="1",z="\\""} 2', 'g{a="1",z="\\""} 2'])
  const other = new CounterFamily({ name: 'c', help: 'h', labels: ['a', 'y'] })
  expect(() => other.inc(labels)).toThrow('metric c has other labels than a, z')
  expect(() => new CounterFamily({ name: 'c', help: 'h' }).inc(labels)).toThrow('metric c has other labels than a, z')
})

it('follows what is counted elsewhere, and goes on when that begins at zero again', () => {
  const counter = new CounterFamily({ name: 'c', help: 'h' }).with()
  const values = [3, 5, 5, 2, 4].map((count) => {
    counter.follow(count)
    return counter.value
  })
  expect(values).toEqual([3, 5, 5, 7, 9])
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

it('gives the loop a turn whenever its time is up, and the slices are the whole', async () => {
  const registry = new Registry({ now: everyLookTakes(1) })
  largeFamily(registry)
  let pauses = 0
  const text = await read(registry, () => Promise.resolve(void pauses++))
  expect(pauses).toBeGreaterThan(100)
  expect(text).toBe(registry.text())
})

it('gives the loop a turn when a slice is large, however fast it was written', async () => {
  const registry = new Registry({ now: () => 0 })
  largeFamily(registry)
  const sizes: number[] = []
  for await (const slice of registry.stream(() => Promise.resolve())) sizes.push(slice.length)
  expect(sizes.length).toBeGreaterThan(2)
  expect(Math.max(...sizes)).toBeLessThanOrEqual(1 << 17)
})

it('scrapes that overlap take turns, and each is the whole', async () => {
  const registry = new Registry({ now: everyLookTakes(1) })
  largeFamily(registry)
  let atWork = 0
  const pause = async (): Promise<void> => {
    expect(++atWork).toBe(1) // one slice in a turn, however many scrape
    await setImmediate()
    atWork--
  }
  const texts = await Promise.all(Array.from({ length: 5 }, () => read(registry, pause)))
  expect(new Set(texts)).toEqual(new Set([registry.text()]))
})

it('a reader that leaves ends its scrape, collectors included, and holds up nobody', async () => {
  const registry = new Registry({ now: everyLookTakes(1) })
  largeFamily(registry)
  let open = 0
  registry.onCollect(function* () {
    open++
    try {
      for (let step = 0; step < 9; step++) yield
    } finally {
      open--
    }
  })
  for await (const _ of registry.stream(() => Promise.resolve())) break
  const left = registry.stream(() => Promise.reject(new Error('gone')))
  await expect(left.next()).rejects.toThrow('gone')
  expect(open).toBe(0)
  expect(await read(registry, () => Promise.resolve())).toBe(registry.text())
})

it('shows each series that stays exactly once, though others come and go between two slices', async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.array(fc.tuple(fc.nat(999), fc.boolean()), { minLength: 1, maxLength: 60 }),
      async (changes) => {
        const registry = new Registry({ now: everyLookTakes(1) })
        const family = registry.register(new GaugeFamily({ name: 'g', help: 'h', labels: ['l'] }))
        const touched = new Set(changes.map(([l]) => l))
        for (let l = 0; l < 1000; l += 2) family.set({ l: String(l) }, l)
        const left = [...changes]
        const text = await read(registry, () => {
          const [l, isThere] = left.pop() ?? [1001, false]
          if (isThere) family.set({ l: String(l) }, l)
          else family.remove({ l: String(l) })
          return Promise.resolve()
        })
        const shown = [...text.matchAll(/l="(\d+)"\} (\d+)\n/g)].map(([, l, value]) => [l, value] as const)
        const names = shown.map(([l]) => l!)
        expect(names).toEqual([...new Set(names)].sort())
        for (const [l, value] of shown) expect(value).toBe(l)
        const stayed = names.filter((l) => !touched.has(Number(l)))
        expect(stayed).toHaveLength(
          Array.from({ length: 500 }, (_, at) => at * 2).filter((l) => !touched.has(l)).length,
        )
      },
    ),
    { numRuns: 60 },
  )
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
  const registry = new Registry({ now: everyLookTakes(1) })
  const gauge = registry.register(new GaugeFamily({ name: 'found', help: 'h' }))
  registry.onCollect(function* () {
    for (let step = 1; step <= 3; step++) {
      gauge.set({}, step)
      yield
    }
  })
  let pauses = 0
  const text = await read(registry, () => Promise.resolve(void pauses++))
  expect(text).toContain('found 3\n')
  expect(pauses).toBe(5) // its three steps, the text, and the end
})

async function read(registry: Registry, pause: () => Promise<void>): Promise<string> {
  const slices: Uint8Array[] = []
  for await (const slice of registry.stream(pause)) slices.push(slice)
  return Buffer.concat(slices).toString()
}

/** A clock on which every look is later by more than a turn. */
function everyLookTakes(turns: number): () => number {
  let now = 0
  return () => (now += turns * 10)
}

function largeFamily(registry: Registry): void {
  const family = registry.register(
    new HistogramFamily({ name: 'h', help: 'h', labels: ['l'], buckets: exponentialBuckets(1, 2, 10) }),
  )
  for (let l = 0; l < 1000; l++) family.observe({ l: String(l) }, l)
}
