// Goal: what is done on the loop with one long request is parted, so that others have their turn between its steps. Method: a clock by which every
// step takes long; whoever is asked says in which turn of the loop it was asked.
import { afterEach, expect, it, vi } from 'vitest'
import type { Body } from '../chat/request.js'
import { inTurns } from './asked-chats.js'
import { EngineTokens } from './engine-tokens.js'

afterEach(() => {
  vi.restoreAllMocks()
  vi.unstubAllGlobals()
})

/** Counts turns until it is stopped. */
function countTurns(): { readonly count: () => number; readonly stop: () => void } {
  let turns = 0
  let isOver = false
  const next = (): void => {
    turns++
    if (!isOver) setImmediate(next)
  }
  setImmediate(next)
  return { count: () => turns, stop: () => (isOver = true) }
}

async function turnsBeforeAsking(body: Body, isRead: boolean): Promise<number> {
  const turns = countTurns()
  const asked: number[] = []
  vi.stubGlobal('fetch', () => {
    asked.push(turns.count())
    return Promise.resolve(Response.json({ tokens: [1, 2] }))
  })
  const raw = Buffer.from(JSON.stringify(body))
  await new EngineTokens({ url: 'http://engine', dialect: 'sglang' }).tokenize('chat', isRead ? body : undefined, {
    raw,
  })
  turns.stop()
  return asked[0]!
}

const chat = (units: number): Body => ({ model: 'm', messages: [{ role: 'user', content: 'a'.repeat(units) }] })

it('a short request is asked for in the turn in which it came', async () => {
  vi.spyOn(performance, 'now').mockReturnValue(0)
  expect(await turnsBeforeAsking(chat(100), true)).toBe(0)
})

it('one that took long to parse is asked for in another turn', async () => {
  vi.spyOn(performance, 'now').mockReturnValue(0)
  expect(await turnsBeforeAsking(chat(100_000), true)).toBeGreaterThan(0)
})

it('between steps that take long others have their turn', async () => {
  let ms = 0
  vi.spyOn(performance, 'now').mockImplementation(() => (ms += 10))
  const [first, second] = [await turnsBeforeAsking(chat(100), true), await turnsBeforeAsking(chat(100), false)]
  expect(Math.min(first, second)).toBeGreaterThan(3)
})

it('of many long questions each is sent in a turn of its own', async () => {
  const turns = countTurns()
  const sent = await inTurns(
    ['a', 'b', 'c'].map((letter) => letter.repeat(100_000)),
    () => Promise.resolve(turns.count()),
  )
  expect(new Set(sent).size).toBe(3)
  const short = await inTurns(['a', 'b', 'c'], () => Promise.resolve(turns.count()))
  expect(new Set(short).size).toBe(1)
  turns.stop()
})

it('a question that fails fails all of them, and once', async () => {
  const long = ['a', 'b'].map((letter) => letter.repeat(100_000))
  await expect(inTurns(long, (post) => Promise.reject(new Error(post[0])))).rejects.toThrow(/^a$/)
})
