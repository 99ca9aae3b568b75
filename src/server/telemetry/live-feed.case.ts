/** What is said of one rank whose events arrive. */
import type { FeedStatus } from '../../events/index.js'

export const liveFeed = {
  dpRank: 0,
  state: 'live',
  lastSequence: 7,
  deviceBlocks: 1,
  events: 5,
  machine: { applied: 1, gaps: 0, replays: 0, restarts: 0, droppedFrames: 0 },
  purges: {},
  decodeErrors: {},
} as unknown as FeedStatus
