import { expect, it } from 'vitest'
import { LoopTurns } from './loop-turns.js'

const nextTurn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve))

/** Requests that arrive together; each takes so many milliseconds of a clock that only they move. */
function crowd(count: number, costMs: number, budgetMs: number) {
  let nowMs = 0
  let turn = 0
  const turns = new LoopTurns(() => nowMs, budgetMs)
  const served: { readonly request: number; readonly turn: number }[] = []
  const run = async (request: number): Promise<void> => {
    const wait = turns.enter()
    if (wait) await wait
    served.push({ request, turn })
    nowMs += costMs
  }
  const done = Promise.all(Array.from({ length: count }, (_, request) => run(request)))
  const finish = async () => {
    for (; served.length < count; turn++) await nextTurn()
    await done
    return served
  }
  return { turns, served, finish }
}

it('lets a request through at once when there is time', () => {
  const turns = new LoopTurns(() => 0, 4)
  expect([turns.enter(), turns.enter()]).toEqual([undefined, undefined])
})

it('spreads a crowd over turns, in the order of arrival, and leaves none behind', async () => {
  const { turns, finish } = crowd(40, 1, 4)
  const served = await finish()
  expect(served.map(({ request }) => request)).toEqual(Array.from({ length: 40 }, (_, at) => at))
  const perTurn = new Map<number, number>()
  for (const { turn } of served) perTurn.set(turn, (perTurn.get(turn) ?? 0) + 1)
  expect(Math.max(...perTurn.values())).toBeLessThanOrEqual(4)
  expect(turns.waitingCount).toBe(0)
})

it('lets at least one through per turn, however long it takes', async () => {
  const { finish } = crowd(5, 100, 4)
  expect((await finish()).length).toBe(5)
})

it('a newcomer waits behind those who wait', async () => {
  const { turns, served, finish } = crowd(6, 5, 4)
  expect(served).toHaveLength(1)
  let isThrough = false
  const late = turns.enter()!.then(() => (isThrough = true))
  await finish()
  await late
  expect(isThrough).toBe(true)
  expect(turns.waitingCount).toBe(0)
})

/** A request whose stages take so many milliseconds of a clock that only they move. Answers in which turn each was served. */
async function stages(costsMs: readonly number[]): Promise<number[]> {
  let nowMs = 0
  let turn = 0
  let isOver = false
  const turns = new LoopTurns(() => nowMs)
  const count = (): void => void (isOver || (turn++, setImmediate(count)))
  count()
  const servedIn: number[] = []
  expect(turns.enter()).toBeUndefined()
  for (const costMs of costsMs) {
    const rest = turns.rest()
    if (rest) await rest
    servedIn.push(turn)
    nowMs += costMs
  }
  isOver = true
  return servedIn
}

it('serves the stages of a request in one turn while they are short', async () => {
  expect(new Set(await stages([0.6, 0.6, 0.6, 0.6])).size).toBe(1)
})

it('serves what follows a long stage in a later turn, and counts that one anew', async () => {
  const [first, second, third, fourth, fifth] = await stages([4, 0.5, 0.5, 1.5, 1])
  expect(second).toBeGreaterThan(first!)
  expect([third, fourth]).toEqual([second, second])
  expect(fifth).toBeGreaterThan(fourth!)
})

it('takes a turn of its own where it is told to', async () => {
  const turns = new LoopTurns(() => 0)
  const order: string[] = []
  const long = turns.ownTurn().then(() => order.push('long'))
  setImmediate(() => order.push('another'))
  await long
  expect(order).toEqual(['another', 'long'])
  expect(turns.rest()).toBeUndefined()
})
