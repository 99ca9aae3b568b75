/** Listens to every rank's events during an examination, and remembers what was stored and by whom. */
import { createBlockHasher } from '../../core/hashing/index.js'
import type { EventSourceFact } from '../../engines/index.js'
import { KvEventDecoder } from '../../engines/index.js'
import type { BatchDecoder, DecodedBatch, Feed } from '../../events/index.js'
import { eventKind, Intake, ZmqSource } from '../../events/index.js'

export interface StoredEvent {
  /** The stream it came on, and what the batch itself says. */
  readonly streamRank: number
  readonly batchRank: number
  readonly blockSize: number
  readonly tokens: Uint32Array
  readonly atMs: number
}

/** Enough for an examination; on a busy engine the oldest go. */
const storesMax = 4096
const lookMs = 10

export class Ear {
  readonly stores: StoredEvent[] = []
  readonly #source: ZmqSource
  readonly #feeds: readonly Feed[]

  /** With `replays` each stream is first asked for all it still has. */
  constructor(sources: readonly EventSourceFact[], blockSize: number, replays: boolean) {
    const decoder = new KvEventDecoder()
    const options = { decoder, hasher: createBlockHasher(), sink: { apply() {} }, blockSize, seed: 1 }
    this.#source = new ZmqSource((wiring) => new Intake({ ...options, ...wiring }))
    this.#feeds = sources.map(({ dpRank, endpoint, replayEndpoint, topic }, rank) => {
      const tap = tapped(decoder, (batch) => this.#note(dpRank, batch))
      const replay = replays ? { replayEndpoint } : {}
      return this.#source.follow({ rank, dpRank, endpoint, topic, decoder: tap, ...replay })
    })
  }

  /** Waits until the streams are followed; false when that takes too long. */
  ready(timeoutMs: number, signal: AbortSignal): Promise<boolean> {
    return until(() => this.#feeds.every(({ machine }) => machine.state === 'live'), timeoutMs, signal)
  }

  /** The first store that fits, or undefined when none came in time. */
  async heard(
    fits: (event: StoredEvent) => boolean,
    timeoutMs: number,
    signal: AbortSignal,
  ): Promise<StoredEvent | undefined> {
    await until(() => this.stores.some(fits), timeoutMs, signal)
    return this.stores.find(fits)
  }

  /** Batches that could not be read, by reason. */
  unreadable(): string[] {
    return this.#feeds.flatMap((feed) => Object.keys(feed.status(0).decodeErrors))
  }

  close(): Promise<void> {
    return this.#source.close()
  }

  #note(streamRank: number, batch: DecodedBatch): void {
    for (let at = 0; at < batch.eventCount; at++) {
      if (batch.kind[at] !== eventKind.stored) continue
      const start = batch.tokenStart[at]!
      this.stores.push({
        streamRank,
        batchRank: batch.dpRank,
        blockSize: batch.blockSize[at]!,
        tokens: batch.tokens.slice(start, start + batch.tokenCount[at]!),
        atMs: performance.now(),
      })
      if (this.stores.length > storesMax) this.stores.shift()
    }
  }
}

function tapped(decoder: BatchDecoder, note: (batch: DecodedBatch) => void): BatchDecoder {
  return {
    decode(payload, into) {
      const reason = decoder.decode(payload, into)
      if (reason === undefined) note(into)
      return reason
    },
    timestampOf: (payload) => decoder.timestampOf(payload),
  }
}

async function until(holds: () => boolean, timeoutMs: number, signal: AbortSignal): Promise<boolean> {
  const end = performance.now() + timeoutMs
  while (!holds() && performance.now() < end && !signal.aborted)
    await new Promise((resolve) => setTimeout(resolve, lookMs))
  return holds()
}
