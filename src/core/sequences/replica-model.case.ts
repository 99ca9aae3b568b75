/**
 * Goal: whatever the network loses, repeats and reorders, no tracker carries load it was not told of, none keeps load past
 * its expiry, and where nothing is lost both agree.
 * Method: two routers book, mark and free; their events pass through a network that delivers, drops, doubles or shuffles.
 * Each tracker is compared with a naive model that is driven by the same local calls and the same arrivals.
 */
import assert from 'node:assert/strict'
import fc from 'fast-check'
import type { CompatMode } from '../protocol/index.js'
import { hashAt, hashCount } from '../protocol/index.js'
import { applyReplicaEvents } from './apply-replica.js'
import { NaiveSequences } from './naive-sequences.case.js'
import type { SequenceEvent } from './sequence-event.js'
import type { SequenceRules } from './sequence-rules.js'
import { sequenceRulesOf } from './sequence-rules.js'
import type { Tracker } from './tracker.case.js'
import { trackerOf } from './tracker.case.js'

const rankCount = 3
const prompts = [[1], [1, 2], [1, 2, 3], [1, 2, 9], [5, 6]]

const anySide = fc.nat({ max: 1 })
const anyId = fc.nat({ max: 7 }).map((it) => `r${it}`)
const anyStep = fc.oneof(
  {
    weight: 5,
    arbitrary: fc.record({
      kind: fc.constant('book' as const),
      side: anySide,
      id: anyId,
      rank: fc.nat({ max: rankCount - 1 }),
      prompt: fc.constantFrom(...prompts),
      tokens: fc.nat({ max: 20 }),
    }),
  },
  { weight: 2, arbitrary: fc.record({ kind: fc.constant('mark' as const), side: anySide, id: anyId }) },
  { weight: 3, arbitrary: fc.record({ kind: fc.constant('free' as const), side: anySide, id: anyId }) },
  {
    weight: 6,
    arbitrary: fc.record({
      kind: fc.constant('deliver' as const),
      side: anySide,
      /** Which of the events on the way; 0 is the oldest. */
      at: fc.nat({ max: 5 }),
      fate: fc.constantFrom('once', 'once', 'twice', 'lost'),
    }),
  },
)
type Step = typeof anyStep extends fc.Arbitrary<infer T> ? T : never

interface Side {
  readonly tracker: Tracker
  readonly model: NaiveSequences
  readonly routerId: bigint
  readonly inbox: SequenceEvent[]
}

function sidesOf(rules: SequenceRules): readonly [Side, Side] {
  const inboxes: [SequenceEvent[], SequenceEvent[]] = [[], []]
  const sideOf = (index: 0 | 1): Side => {
    const routerId = BigInt(index + 1)
    const port = { publish: (event: SequenceEvent) => void inboxes[index === 0 ? 1 : 0].push(event) }
    const model = new NaiveSequences(rules.prefillDecay)
    for (let rank = 0; rank < rankCount; rank++) model.track(rank, 0)
    return {
      tracker: trackerOf(rankCount, { rules, replica: { routerId, port } }),
      model,
      routerId,
      inbox: inboxes[index],
    }
  }
  return [sideOf(0), sideOf(1)]
}

/** Each side carries what it was told, after every step, and nothing outlives its expiry. */
export function checkBadNetwork(compat: CompatMode, runs: fc.Parameters<unknown>): void {
  const rules = sequenceRulesOf(compat)
  fc.assert(
    fc.property(fc.array(anyStep, { maxLength: 60 }), (steps) => {
      const sides = sidesOf(rules)
      for (const step of steps) {
        const side = sides[step.side as 0 | 1]
        if (step.kind === 'deliver') deliver(side, step, rules)
        else act(side, step)
        for (const it of sides) compare(it)
      }
      for (const { tracker } of sides) {
        tracker.sequences.expire(331_000)
        assert.deepEqual([tracker.sequences.requestCount, tracker.sequences.runCount], [0, 0])
        for (let rank = 0; rank < rankCount; rank++)
          assert.deepEqual(
            [tracker.sequences.activeBlocks(rank), tracker.sequences.activeTokens(rank, 331_000)],
            [0, 0],
          )
      }
    }),
    runs as fc.Parameters<[Step[]]>,
  )
}

/** Both sides agree where every event arrives in order and ids do not clash. */
export function checkGoodNetwork(compat: CompatMode, runs: fc.Parameters<unknown>): void {
  const rules = sequenceRulesOf(compat)
  fc.assert(
    fc.property(fc.array(anyStep, { maxLength: 60 }), (steps) => {
      const sides = sidesOf(rules)
      for (const step of steps) {
        const side = sides[step.side as 0 | 1]
        if (step.kind !== 'deliver') act(side, { ...step, id: `${step.side}${step.id}` })
        for (const it of sides) while (it.inbox.length > 0) arrive(it, it.inbox.shift()!, rules)
        assert.deepEqual(stateOf(sides[0].tracker), stateOf(sides[1].tracker))
      }
    }),
    runs as fc.Parameters<[Step[]]>,
  )
}

function act({ tracker, model }: Side, step: Exclude<Step, { kind: 'deliver' }>): void {
  const isKnown = model.has(step.id)
  if (step.kind === 'book') {
    if (isKnown) return
    tracker.book(step.id, step.rank, step.prompt, [step.tokens])
    model.book(step.id, step.rank, step.prompt.map(String), 0, { tokens: step.tokens })
  } else if (step.kind === 'free') {
    tracker.sequences.free(step.id, 0)
    model.free(step.id, 0)
  } else if (isKnown) {
    tracker.sequences.markPrefillCompleted(step.id, 0)
    model.mark(step.id, 0)
  }
}

function deliver(side: Side, step: Extract<Step, { kind: 'deliver' }>, rules: SequenceRules): void {
  const [event] = side.inbox.splice(Math.min(step.at, side.inbox.length - 1), 1)
  if (!event || step.fate === 'lost') return
  arrive(side, event, rules)
  if (step.fate === 'twice') arrive(side, event, rules)
}

function arrive({ tracker, model, routerId }: Side, event: SequenceEvent, rules: SequenceRules): void {
  applyReplicaEvents(tracker.sequences, [event], 0, { routerId })
  const rank = tracker.ranks.find(event.worker.workerId, event.worker.dpRank)!
  const held = model.holds.find((it) => it.id === event.requestId)
  if (event.data.kind === 'add_request') {
    if (held && (rules.replicaOwner === 'first' || held.rank === rank)) return
    model.free(event.requestId, 0)
    const column = event.data.tokenSequence!
    const prompt = Array.from({ length: hashCount(column) }, (_, at) => String(hashAt(column, at)))
    model.book(event.requestId, rank, prompt, 0, event.data.prefillLoadHint)
  } else if (held && (rules.replicaTarget === 'booked' || held.rank === rank)) {
    if (event.data.kind === 'free') model.free(event.requestId, 0)
    else model.mark(event.requestId, 0)
  }
}

function compare({ tracker, model }: Side): void {
  for (let rank = 0; rank < rankCount; rank++)
    assert.deepEqual(
      [
        tracker.sequences.activeBlocks(rank),
        tracker.sequences.activeTokens(rank, 0),
        tracker.sequences.activeRequests(rank),
      ],
      [model.activeBlocks(rank), model.activeTokens(rank, 0), model.activeRequests(rank)],
    )
}

function stateOf({ sequences, potential }: Tracker): unknown {
  const ranks = Array.from({ length: rankCount }, (_, rank) => [
    sequences.activeBlocks(rank),
    sequences.activeTokens(rank, 0),
    sequences.activeRequests(rank),
  ])
  return [ranks, ...prompts.map((prompt) => potential(prompt))]
}
