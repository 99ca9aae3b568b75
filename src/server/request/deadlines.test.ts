// Every way to run out of time, by a clock of the test's own: connect and body have deadlines where they are waited for.
import { describe, expect, it } from 'vitest'
import type { WarmrouteError } from '../../core/protocol/index.js'
import { defaultDeadlines } from '../options.js'
import type { Timed } from './deadlines.js'
import { DeadlineClock } from './deadlines.js'

const limits = { totalMs: 1_000, idleMs: 100, noProgressMs: 300 }

/** What becomes of a request that stands as described when it is so late; `comment` where it is only kept alive. */
function fateAt(nowMs: number, stands: Partial<Timed>, changes: Partial<typeof limits> = {}, keepAliveMs = 0): string {
  const clock = new DeadlineClock({ ...defaultDeadlines, ...limits, ...changes }, keepAliveMs, () => nowMs)
  const { timed, fate } = request(stands)
  clock.add(timed)
  clock.tick()
  clock.delete(timed)
  return fate()
}

/** A request that was sent at 10 and heard nothing of since, unless told; and what has become of it. */
function request(stands: Partial<Timed>): { readonly timed: Timed; readonly fate: () => string } {
  let fate = 'goes on'
  const timed: Timed = {
    countsFromMs: 0,
    dispatchedAtMs: 10,
    byteAtMs: 10,
    workerProgressAtMs: 10,
    isStream: true,
    silentSinceMs: 0,
    clockSeat: -1,
    comment: () => (fate = 'comment'),
    expire: (error: WarmrouteError) => (fate = `${error.code}: ${String(error.details['reason'])}`),
    ...stands,
  }
  return { timed, fate: () => fate }
}

const tooLong = 'WR_REQUEST_TIMEOUT: not finished within 1000 ms'
const idle = 'WR_ENGINE_TIMEOUT: no byte within 100 ms'
const still = 'WR_ENGINE_TIMEOUT: no progress within 300 ms'
const noIdle = { idleMs: 0 }

it.each<[string, number, Partial<Timed>, Partial<typeof limits>, string]>([
  ['a stream that flows', 350, { byteAtMs: 300 }, {}, 'goes on'],
  ['a stream that flows for too long', 1_001, { byteAtMs: 1_000 }, {}, tooLong],
  ['a wait for a worker', 900, { dispatchedAtMs: 0 }, {}, 'goes on'],
  ['a wait for a worker that is too long', 1_001, { dispatchedAtMs: 0 }, {}, tooLong],
  ['a stream between two bytes, though its worker works', 201, { byteAtMs: 100, workerProgressAtMs: 200 }, {}, idle],
  ['a stream between two bytes, just in time', 200, { byteAtMs: 100, workerProgressAtMs: 200 }, {}, 'goes on'],
  ['the same without such a limit', 301, { byteAtMs: 100, workerProgressAtMs: 200 }, noIdle, 'goes on'],
  ['a stream without a byte, whose worker moved', 350, { workerProgressAtMs: 100 }, noIdle, 'goes on'],
  ['a stream with a byte, whose worker shows nothing else', 350, { byteAtMs: 100 }, noIdle, 'goes on'],
  ['a stream without either', 311, {}, noIdle, still],
  ['a whole answer, which has no bytes before its end', 309, { isStream: false }, {}, 'goes on'],
  ['a whole answer whose worker moves', 900, { isStream: false, workerProgressAtMs: 700 }, {}, 'goes on'],
  ['a whole answer whose worker stands still', 311, { isStream: false, byteAtMs: 200 }, {}, still],
  ['a worker that stood still before it was asked', 305, { dispatchedAtMs: 300, byteAtMs: 300 }, noIdle, 'goes on'],
  ['nobody who is judged by progress', 999, {}, { idleMs: 0, noProgressMs: 0 }, 'goes on'],
  [
    'a client that does not read, however its worker moves',
    311,
    { isHeldUp: true, workerProgressAtMs: 310 },
    {},
    'WR_REQUEST_TIMEOUT: the client read nothing within 300 ms',
  ],
  ['a client that does not read, for a while', 250, { isHeldUp: true }, {}, 'goes on'],
  [
    'a first token that is late',
    81,
    { answerBeforeMs: 80, byteAtMs: 80 },
    {},
    'WR_ENGINE_TIMEOUT: no answer within 70 ms',
  ],
])('%s', (_says, nowMs, stands, changes, fate) => {
  expect(fateAt(nowMs, stands, changes)).toBe(fate)
})

it.each<[string, number, Partial<Timed>, string]>([
  ['a silent stream', 50, {}, 'comment'],
  ['one that spoke', 59, { silentSinceMs: 10 }, 'goes on'],
  ['one that waits for a worker', 50, { dispatchedAtMs: 0 }, 'comment'],
  ['one whose client does not read', 50, { isHeldUp: true }, 'goes on'],
])('keeps alive: %s', (_says, nowMs, stands, fate) => {
  expect(fateAt(nowMs, stands, {}, 50)).toBe(fate)
})

describe('after a standstill of the whole process, as of a machine that was asleep,', () => {
  /** What becomes of a request that was silent for so long before, while and after everything stood still. */
  function fateAfter(beforeMs: number, standstillMs: number, afterMs: number, stands: Partial<Timed>): string {
    let nowMs = 0
    const deadlines = { ...defaultDeadlines, totalMs: 100_000, idleMs: 0, noProgressMs: 3_000 }
    const clock = new DeadlineClock(
      deadlines,
      0,
      () => nowMs,
      () => nowMs,
    )
    const { timed, fate } = request(stands)
    clock.add(timed)
    const pass = (ms: number): void => {
      for (const endMs = nowMs + ms; nowMs + 750 <= endMs; clock.tick()) nowMs += 750 // a quarter of the shortest limit
    }
    pass(beforeMs)
    nowMs += standstillMs
    clock.tick() // timers come first, and sockets are read afterwards
    pass(afterMs)
    clock.delete(timed)
    return fate()
  }

  it.each<[string, number, number, Partial<Timed>, string]>([
    ['a stream of which bytes may wait unread goes on', 5_000, 2_250, {}, 'goes on'],
    ['so does a whole answer', 5_000, 2_250, { isStream: false }, 'goes on'],
    ['so does one whose client was not heard', 5_000, 2_250, { isHeldUp: true }, 'goes on'],
    ['so does one whose first token may be there', 5_000, 0, { answerBeforeMs: 4_000 }, 'goes on'],
    ['a first token that is not there is late', 5_000, 1_500, { answerBeforeMs: 4_000 }, 'WR_ENGINE_TIMEOUT'],
    ['what stays silent is given up, after a time of its own', 5_000, 3_750, {}, 'WR_ENGINE_TIMEOUT'],
    ['a short one changes nothing', 1_000, 1_500, {}, 'WR_ENGINE_TIMEOUT'],
  ])('%s', (_says, standstillMs, afterMs, stands, fate) => {
    expect(fateAfter(1_500, standstillMs, afterMs, stands)).toContain(fate)
  })

  it.each<[string, Partial<Timed>, string]>([
    ['what stays silent is given up', {}, 'WR_ENGINE_TIMEOUT: no progress'],
    ['a first token that is not there is late', { answerBeforeMs: 4_000 }, 'WR_ENGINE_TIMEOUT: no answer'],
  ])('and again and again, as under load that never ends: %s', (_says, stands, fate) => {
    expect(fateUnderLoad(30, stands)).toContain(fate)
  })

  it('and again and again: whoever is heard in between goes on', () => {
    const heard: { byteAtMs: number } & Partial<Timed> = { byteAtMs: 10 }
    expect(fateUnderLoad(30, heard, (nowMs) => (heard.byteAtMs = nowMs))).toBe('goes on')
  })

  /** Each tick comes 4 s late, which is more than may be silent. */
  function fateUnderLoad(ticks: number, stands: Partial<Timed>, afterTick: (nowMs: number) => void = () => {}): string {
    let nowMs = 0
    const now = (): number => nowMs
    const deadlines = { ...defaultDeadlines, totalMs: 1_000_000, idleMs: 0, noProgressMs: 3_000 }
    const clock = new DeadlineClock(deadlines, 0, now, now)
    const { timed, fate } = request(stands)
    clock.add(timed)
    for (let at = 0; at < ticks; at++) {
      nowMs += 750 + 4_000
      clock.tick()
      afterTick(nowMs)
      Object.assign(timed, stands)
    }
    clock.delete(timed)
    return fate()
  }
})
