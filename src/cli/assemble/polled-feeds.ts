/**
 * Event streams that are asked for instead of listened to: TensorRT-LLM's queue over HTTP. Asking empties it, so there is
 * one who asks, and only where an operator said that we are the one.
 */
import type { Rank } from '../../core/protocol/index.js'
import { pollTrtllm, TrtllmPollReader } from '../../engines/index.js'
import type { Feed, Intake } from '../../events/index.js'

export interface PolledOptions {
  readonly rank: Rank
  readonly url: string
  readonly apiKey: string | undefined
  readonly intervalMs: number
  readonly blockSize: number
  readonly usableBlocks: number | undefined
}

export class PolledFeeds {
  readonly #intake: Intake
  readonly #running = new Map<Feed, { readonly stop: AbortController; readonly finished: Promise<void> }>()

  constructor(intake: Intake) {
    this.#intake = intake
  }

  start({ rank, url, apiKey, intervalMs, blockSize, usableBlocks }: PolledOptions): Feed {
    const decoder = new TrtllmPollReader({ blockSize, dpRank: 0 })
    const feed = this.#intake.addFeed({ rank, dpRank: 0, hasReplay: false, decoder, usableBlocks })
    const stop = new AbortController()
    const finished = pollTrtllm({ baseUrl: url, apiKey, feed, intervalMs, signal: stop.signal })
    this.#running.set(feed, { stop, finished })
    return feed
  }

  /** Settles when its last question is over. Of others it knows nothing. */
  async stop(feed: Feed): Promise<void> {
    const running = this.#running.get(feed)
    if (!running) return
    this.#running.delete(feed)
    running.stop.abort()
    this.#intake.removeFeed(feed.rank)
    await running.finished
  }

  async close(): Promise<void> {
    await Promise.all([...this.#running.keys()].map((feed) => this.stop(feed)))
  }
}
