import { describe, expect, it } from 'vitest'
import type { RouterConfigInput } from '../protocol/index.js'
import { FleetModel } from '../load/index.js'
import { Fleet, outcome, pin } from './fleet.case.js'

// Goal: the router knows what upstream's knows of a whole answer, whose engine streams to it whatever the client asked for: that its
// prompt is computed long before it ends. Nothing but the load of such prompts differs from a router that was told.
const dynamo: RouterConfigInput = { policy: 'dynamo', routerQueueThreshold: undefined }
const whole = { isWhole: true, ...pin(0) }

describe('without times of prefills', () => {
  it('a prompt is taken for computed when it should be, behind those before it', () => {
    const fleet = new Fleet({ workers: 1, config: dynamo })
    fleet.ask('a', { ...whole, promptTokens: 5000 }) // 110 ms, as is assumed where nothing was seen
    fleet.ask('b', { ...whole, promptTokens: 1000 }) // and 30
    expect(tokensAt(fleet, 109)).toBe(6000)
    expect(tokensAt(fleet, 111)).toBe(1000)
    expect(tokensAt(fleet, 141)).toBe(0)
    expect([fleet.mark('a'), fleet.free('a'), fleet.free('b')]).toEqual([[], [], []])
  })

  it('an idle worker starts at once, however late others were expected to be done', () => {
    const fleet = new Fleet({ workers: 1, config: dynamo })
    fleet.ask('a', { ...whole, promptTokens: 50_000 })
    fleet.free('a') // it was faster than expected
    fleet.ask('b', { ...whole, promptTokens: 1000 })
    expect(tokensAt(fleet, 31)).toBe(0)
  })

  it('a prompt of a stream stays until its first token, and nothing of it fades', () => {
    const fleet = new Fleet({ workers: 1, config: dynamo })
    fleet.ask('whole', { ...whole, promptTokens: 1000 })
    fleet.ask('stream', { ...pin(0), promptTokens: 1000 })
    expect(tokensAt(fleet, 60_000)).toBe(1000)
    fleet.mark('stream')
    expect(tokensAt(fleet, 60_000)).toBe(0)
  })

  it('streams teach how long it takes', () => {
    const fleet = new Fleet({ workers: 1, config: dynamo })
    fleet.ask('first', { ...whole, promptTokens: 16 })
    fleet.free('first')
    for (let at = 0; at < 64; at++) {
      fleet.ask(`s${at}`, { ...pin(0), promptTokens: 1000 + 100 * (at % 9) })
      fleet.nowMs += 0.2 * (1000 + 100 * (at % 9)) // ten times the guess
      fleet.mark(`s${at}`)
      fleet.free(`s${at}`)
    }
    const startMs = fleet.nowMs
    fleet.ask('whole', { ...whole, promptTokens: 1000 })
    expect(tokensAt(fleet, startMs + 100)).toBe(1000) // 30 ms by the guess
    expect(tokensAt(fleet, startMs + 250)).toBe(0)
  })

  it('who waits for it is woken', () => {
    const fleet = new Fleet({ workers: 1, config: { ...dynamo, routerQueueThreshold: 1 } })
    fleet.ask('a', { ...whole, promptTokens: 5000 })
    expect(outcome(fleet.ask('b'))).toBe('parked')
    fleet.nowMs = fleet.core.nextWakeMs(0)!
    expect(fleet.recheck()).toEqual(['b@0'])
  })
})

it('where times are learned, a guess stands for them until enough were seen', () => {
  const fleet = new Fleet({ workers: 1, config: dynamo, learner: new FleetModel() })
  fleet.ask('a', { ...whole, promptTokens: 5000 })
  expect(tokensAt(fleet, 111)).toBe(0)
})

function tokensAt(fleet: Fleet, nowMs: number): number {
  fleet.nowMs = nowMs
  fleet.recheck()
  return fleet.activeTokens(0)
}
