/** A packed batch of KV events as bytes of a log. Its words go as they are; reading takes them apart and packs them anew. */
import type { EventBatch } from '../index/index.js'
import { eventHeaderWords, eventKinds, hasParentFlag, TieredBatch } from '../index/index.js'
import { storageTiers, WarmrouteError } from '../protocol/index.js'
import type { ByteReader, ByteWriter } from './byte-codec.js'

export function writeBatch(to: ByteWriter, batch: TieredBatch): void {
  for (const tier of storageTiers) {
    const { words, wordCount } = batch.of(tier)
    to.words(words, wordCount)
  }
}

/** Throws `WR_INVALID_LOG` where the words are no events. */
export function readBatch(from: ByteReader): TieredBatch {
  const batch = new TieredBatch()
  for (const tier of storageTiers) unpack(from.words(), batch.of(tier))
  return batch
}

function unpack(words: Uint32Array, into: EventBatch): void {
  for (let at = 0; at < words.length; ) {
    const [kind = 0, rank = 0, count = 0, , parentLo = 0, parentHi = 0] = words.subarray(at, at + eventHeaderWords)
    const code = kind & 0xff
    const payload = code === eventKinds.stored ? 4 * count : code === eventKinds.removed ? 2 * count : 0
    const start = at + eventHeaderWords
    at = start + payload
    if (code > eventKinds.cleared || at > words.length)
      throw new WarmrouteError('WR_INVALID_LOG', { reason: 'a batch of events is damaged' })
    if (code === eventKinds.cleared) into.cleared(rank)
    else {
      const hasParent = (kind & hasParentFlag) !== 0
      const to =
        code === eventKinds.stored
          ? into.openStored(rank, count, hasParent, parentLo, parentHi)
          : into.openRemoved(rank, count)
      into.words.set(words.subarray(start, at), to)
    }
  }
}
