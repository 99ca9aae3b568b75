import { expect, it } from 'vitest'
import type { LoadOnlyReason, Route } from './chat/request.js'
import { LoadOnlyRuns } from './load-only-runs.js'

/** What is said after each outcome: a reason, or `tokens`. */
function saidAfter(outcomes: readonly (LoadOnlyReason | 'tokens')[], route: Route = 'chat'): (string | undefined)[] {
  const runs = new LoadOnlyRuns()
  return outcomes.map((outcome) => {
    if (outcome === 'tokens') runs.tokenized(route)
    else runs.loadOnly(route, outcome)
    return runs.reason
  })
}

const template = 'chat: template-failed'

it('a few in a row without tokens are a model without tokens, until as many had some', () => {
  const failed = 'template-failed'
  expect(saidAfter([failed, failed, failed, failed])).toEqual([undefined, undefined, template, template])
  expect(saidAfter([failed, failed, 'tokens', failed, failed])).toEqual(Array.from({ length: 5 }))
  expect(saidAfter([failed, failed, failed, 'tokens', 'tokens', failed, 'tokens', 'tokens', 'tokens', failed])).toEqual(
    [undefined, undefined, template, template, template, template, template, template, undefined, undefined],
  )
})

it('what lies with the request says nothing of the model', () => {
  const ofRequests = [
    'media-image',
    'media-audio',
    'media-video',
    'media-other',
    'embeddings',
    'stored-response',
    'request-template',
    'malformed',
    'too-long',
    'other-route',
  ] as const
  for (const reason of ofRequests) expect(saidAfter(Array.from({ length: 9 }, () => reason)).at(-1)).toBeUndefined()
  expect(saidAfter(['template-failed', 'media-image', 'template-failed', 'malformed', 'template-failed']).at(-1)).toBe(
    template,
  )
})

it('keeps the reason by which it began, whatever else goes wrong meanwhile', () => {
  expect(saidAfter(['deadline', 'deadline', 'busy']).at(-1)).toBe('chat: busy')
  expect(saidAfter(['deadline', 'deadline', 'deadline', 'busy', 'deadline', 'busy']).at(-1)).toBe('chat: deadline')
})

it('knows each route by itself', () => {
  const runs = new LoadOnlyRuns()
  for (let at = 0; at < 3; at++) {
    runs.loadOnly('chat', 'no-template')
    runs.tokenized('completions')
  }
  expect(runs.reason).toBe('chat: no-template')
  for (let at = 0; at < 3; at++) runs.loadOnly('responses', 'engine-settings')
  expect(runs.reason).toBe('chat: no-template, responses: engine-settings')
})
