/** The verdict on a worker that is in. It is looked at many times a second, and judged only when something has changed. */
import type { EngineFacts } from '../../engines/index.js'
import type { Joined } from './joined.js'
import type { TokenView } from './token-hosts.js'
import type { FeedView, ModeVerdict } from './worker-mode.js'
import { judgeMode } from './worker-mode.js'

/** All that may change of what a verdict is made of. */
export interface Judged {
  readonly facts: EngineFacts
  readonly feeds: readonly FeedView[]
  readonly hasSource: boolean
  readonly trouble: string | undefined
}

/** Undefined: it is what it was. */
export function judgeJoined(joined: Joined, { status: { trouble }, hasSource }: TokenView): ModeVerdict | undefined {
  const { keeper, runtime, facts, verdict, judged } = joined
  const isSame = judged && judged.facts === facts && judged.trouble === trouble && judged.hasSource === hasSource
  if (isSame && runtime.hasFeeds(keeper.id, judged.feeds)) return undefined
  const feeds = runtime.feedsOf(keeper.id)
  const now = judgeMode({
    facts,
    blockSize: runtime.looksAtCaches ? runtime.blockSize : undefined,
    isEagle: runtime.isEagle,
    hasTokens: hasSource && trouble === undefined,
    tokenTrouble: trouble,
    feeds,
    keepsNoPrompts: joined.role === 'decode' && facts.kind.value === 'sglang',
    wasExact: verdict.mode === 'exact' || verdict.mode === 'degraded',
  })
  joined.judged = { facts, feeds, hasSource, trouble }
  return now.mode === verdict.mode && now.reason === verdict.reason ? undefined : now
}
