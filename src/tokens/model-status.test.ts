// Who is believed about a model: its source, its engine, or what requests have shown.
import { expect, it } from 'vitest'
import type { ModelStatus } from './model-status.js'
import { nothing, otherStatus, Shown, trtllmTrouble, usualStatus } from './model-status.js'
import { EngineTokens } from './sources/engine-tokens.js'
import type { TokenSource } from './sources/source.js'

const files = {} as TokenSource
const found: ModelStatus = { source: 'folder', from: '/a', encoder: 'own', reason: undefined, tried: ['hub'] }

/** What requests have shown: that the engine counts otherwise, that chats have no tokens. */
function shownBy(shows: { readonly isCounted?: boolean; readonly isLoadOnly?: boolean }): Shown {
  const shown = new Shown()
  for (let at = 0; at < 4; at++) {
    if (shows.isCounted) shown.counted.compare(1, 2)
    if (shows.isLoadOnly) shown.runs.loadOnly('chat', 'busy')
  }
  return shown
}
const both = shownBy({ isCounted: true, isLoadOnly: true })
const counted = both.counted.trouble!

function engineWith(trouble: string | undefined): EngineTokens {
  const engine = new EngineTokens({ url: 'http://engine', dialect: 'sglang' })
  Object.defineProperty(engine, 'trouble', { value: trouble })
  return engine
}
const [well, mute] = [engineWith(undefined), engineWith('it answers 500')]
const whole: Partial<ModelStatus> = { asks: 'whole', reason: well.wholeReason }

it.each<{ says: string; source: TokenSource | undefined; status?: Partial<ModelStatus>; wanted: Partial<ModelStatus> }>(
  [
    { says: 'nobody', source: undefined, status: nothing, wanted: { loadOnly: 'no-tokenizer', trouble: counted } },
    { says: 'files', source: files, wanted: { loadOnly: 'chat: busy', trouble: counted } },
    { says: 'files that differ', source: files, status: { trouble: 'differs' }, wanted: { trouble: 'differs' } },
    { says: 'an engine', source: well, wanted: { ...whole, loadOnly: 'chat: busy', trouble: counted } },
    { says: 'a mute one', source: mute, wanted: { ...whole, loadOnly: 'source-failed', trouble: 'it answers 500' } },
  ],
)('of a model that has $says', ({ source, status, wanted }) => {
  expect(usualStatus({ source, status: { ...found, ...status } }, both)).toMatchObject(wanted)
})

it.each<{ says: string; source: TokenSource | undefined; engine?: EngineTokens; wanted: Partial<ModelStatus> }>([
  { says: 'nobody', source: undefined, wanted: { source: 'folder', trouble: counted } },
  { says: 'files', source: files, engine: mute, wanted: { from: '/a', loadOnly: 'chat: busy', trouble: counted } },
  { says: 'none that is asked', source: well, wanted: { source: 'none', trouble: trtllmTrouble, tried: ['hub'] } },
  {
    says: 'an engine',
    source: mute,
    engine: well,
    wanted: { ...whole, from: '/b', loadOnly: 'chat: busy', trouble: counted, tried: ['hub'] },
  },
  { says: 'a mute one', source: well, engine: mute, wanted: { loadOnly: 'source-failed', trouble: 'it answers 500' } },
])('of a model as another kind of engine has it: $says', ({ source, engine, wanted }) => {
  expect(otherStatus({ source, status: found }, { engine, from: '/b', shown: both })).toMatchObject(wanted)
})
