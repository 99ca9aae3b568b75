import assert from 'node:assert/strict'
import fc from 'fast-check'
import { expect, it } from 'vitest'
import { HashArena } from './hash-arena.js'
import { RunTable } from './run-table.js'

// Goal: no order of additions, splits, merges and removals loses a run, or finds one that is not there.
// Method: the same steps drive the table and a map of plain nodes. Pages are tiny, so that runs are moved below the table.
const pageHashes = 16
const first = fc.nat({ max: 400 }) // few enough to meet again, many enough for the table to grow
const anyStep = fc.oneof(
  {
    weight: 12,
    arbitrary: fc.record({
      kind: fc.constant('add' as const),
      parent: fc.nat(),
      first,
      count: fc.integer({ min: 1, max: 8 }),
    }),
  },
  { weight: 3, arbitrary: fc.record({ kind: fc.constant('split' as const), node: fc.nat(), at: fc.nat() }) },
  { weight: 3, arbitrary: fc.record({ kind: fc.constant('merge' as const), node: fc.nat() }) },
  { weight: 5, arbitrary: fc.record({ kind: fc.constant('remove' as const), node: fc.nat() }) },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant('prune' as const), kept: fc.nat({ max: 3 }) }) },
)
type Step = typeof anyStep extends fc.Arbitrary<infer T> ? T : never

interface Run {
  parent: number
  hashes: Uint32Array
}

class Life {
  readonly arena = new HashArena(pageHashes)
  readonly table = new RunTable(this.arena)
  readonly model = new Map<number, Run>()
  readonly done: Record<Step['kind'], number>
  #nextWord = 1000

  constructor(done: Record<Step['kind'], number>) {
    this.done = done
    for (let top = 0; top < 150; top++) this.apply({ kind: 'add', parent: 0, first: 1000 + top, count: 1 + (top % 4) })
  }

  apply(step: Step): void {
    const nodes = [...this.model.keys()]
    if (step.kind === 'add') this.#add(nodes[step.parent % (2 * nodes.length + 1)] ?? -1, step.first, step.count)
    else if (step.kind === 'prune') {
      for (const [at, node] of nodes.entries()) if (at % 4 !== step.kept) this.#remove(node)
    } else if (nodes.length === 0) return
    else {
      const node = nodes[step.node % nodes.length]!
      if (step.kind === 'split') this.#split(node, step.at)
      else if (step.kind === 'merge') this.#merge(node)
      else this.#remove(node)
    }
    this.done[step.kind]++
  }

  #add(parent: number, first: number, count: number): void {
    const hashes = Uint32Array.from({ length: 2 * count }, (_, word) => (word < 2 ? first : this.#nextWord++))
    if (this.table.find(parent, first, first) >= 0) {
      assert.ok(this.#childrenOf(parent).some(([, { hashes: its }]) => its[0] === first))
      return
    }
    this.model.set(this.table.add(parent, hashes, 0, count), { parent, hashes })
  }

  #split(node: number, at: number): void {
    const run = this.model.get(node)!
    const count = at % (run.hashes.length / 2)
    if (count === 0) return
    const upper = this.table.split(node, count)
    this.model.set(upper, { parent: run.parent, hashes: run.hashes.slice(0, 2 * count) })
    this.model.set(node, { parent: upper, hashes: run.hashes.slice(2 * count) })
  }

  #merge(node: number): void {
    const run = this.model.get(node)!
    const upper = this.model.get(run.parent)
    if (upper === undefined || this.#childrenOf(run.parent).length > 1) return
    this.table.merge(node)
    this.model.delete(run.parent)
    this.model.set(node, { parent: upper.parent, hashes: Uint32Array.from([...upper.hashes, ...run.hashes]) })
  }

  #remove(node: number): void {
    if (this.#childrenOf(node).length > 0) return
    this.table.remove(node)
    this.model.delete(node)
  }

  #childrenOf(parent: number): [number, Run][] {
    return [...this.model].filter(([, run]) => run.parent === parent)
  }

  compare(): void {
    const { table, model } = this
    assert.equal(table.liveCount, model.size)
    for (const [node, { parent, hashes }] of model) {
      const count = hashes.length / 2
      assert.equal(table.find(parent, hashes[0]!, hashes[1]!), node)
      assert.deepEqual([table.parent[node], table.length[node]], [parent, count])
      assert.equal(table.matched(node, hashes, 0, count), count)
      assert.equal(table.find(node, 1, 2), -1)
    }
  }
}

it('finds every run with its hashes, while runs are cut, merged and moved', () => {
  const done = { add: 0, split: 0, merge: 0, remove: 0, prune: 0 }
  let wasMoved = 0
  fc.assert(
    fc.property(fc.array(anyStep, { maxLength: 100, size: 'max' }), (steps) => {
      const life = new Life(done)
      for (const step of steps) {
        const pages = [...life.model.keys()].map((node) => [node, life.arena.pageOf(node)] as const)
        life.apply(step)
        life.compare()
        if (step.kind === 'prune')
          wasMoved += pages.filter(([node, page]) => life.model.has(node) && life.arena.pageOf(node) !== page).length
      }
    }),
    { numRuns: 60 },
  )
  for (const [what, times] of Object.entries({ ...done, wasMoved })) expect(times, what).toBeGreaterThan(10)
})
