import { expect, it } from 'vitest'
import type { EngineFacts } from '../../engines/index.js'
import type { Joined } from './joined.js'
import { starting } from './joined.js'
import { judgeJoined } from './judge-joined.js'
import type { TokenView } from './token-hosts.js'
import type { FeedView } from './worker-mode.js'

const known = { status: { trouble: undefined }, hasSource: true } as TokenView
const live: FeedView = { isLive: true, hasStarted: true }

/** A worker with one stream; counts how often its streams were described, which only a judgement needs. */
function worker() {
  const world = { feeds: [live], described: 0 }
  const fact = <T>(value: T) => ({ value, source: 'test' })
  const source = { dpRank: 0, endpoint: 'tcp://h:1', replayEndpoint: undefined, topic: '', bufferSteps: undefined }
  const facts: EngineFacts = { kind: fact('vllm'), blockSize: fact(16), eventSources: fact([source]) }
  const runtime = {
    looksAtCaches: true,
    blockSize: 16,
    isEagle: false,
    feedsOf: () => (world.described++, world.feeds),
    hasFeeds: (_: bigint, views: readonly FeedView[]) => JSON.stringify(views) === JSON.stringify(world.feeds),
  }
  const joined = { keeper: { id: 1n }, runtime, role: 'aggregated', facts, verdict: starting } as unknown as Joined
  /** As the house does: what is new becomes the verdict. */
  const look = (view = known): string | undefined => {
    const now = judgeJoined(joined, view)
    if (now) joined.verdict = now
    return now?.mode
  }
  return { world, joined, look }
}

it('says what a worker is, and nothing while nothing changes', () => {
  const { world, look } = worker()
  expect(look()).toBe('exact')
  for (let again = 0; again < 5; again++) expect(look()).toBeUndefined()
  expect(world.described).toBe(1)
})

it('judges again when its streams, its facts or its tokens are others', () => {
  const { world, joined, look } = worker()
  look()
  world.feeds = [{ isLive: false, hasStarted: true }]
  expect(look()).toBe('degraded')
  world.feeds = [live]
  expect(look()).toBe('exact')
  expect(look({ ...known, hasSource: false })).toBe('approximate')
  expect(look()).toBe('exact')
  expect(look({ ...known, status: { ...known.status, trouble: 'it answers 404' } })).toBe('approximate')
  expect(look()).toBe('exact')
  joined.facts = { ...joined.facts, blockSize: { value: 64, source: 'test' } }
  expect(look()).toBe('approximate')
})
