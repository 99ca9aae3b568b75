/**
 * Where the media of a rendered prompt lie, and their hashes, as a vLLM server says in `features` of its render answer. Its KV
 * events name the same identifiers; both sides keep the first 16 of 64 hex digits (spec/indexing.md 4.5). An identifier of another
 * form, which clients may give, is not told apart in events, so such a prompt is not matched by tokens.
 */
import type { MmExtraInfo } from '../../core/protocol/index.js'
import { isMediaReason, mediaError } from '../chat/media.js'
import { asRecord, LoadOnlyError } from '../chat/request.js'
import type { Value } from '../template/values.js'

const identifier = /^[0-9a-f]{64}$/i

/** Undefined for a prompt without media. Throws for media that events do not name as we would. */
export function readFeatures(value: Value, tokenCount: number): MmExtraInfo | undefined {
  const features = asRecord(value)
  const hashes = asRecord(features?.['mm_hashes'])
  if (!features || !hashes) return undefined
  const places = asRecord(features['mm_placeholders']) ?? {}
  const mmObjects: MmExtraInfo['mmObjects'][number][] = []
  for (const [kind, list] of Object.entries(hashes)) {
    const ranges = places[kind]
    if (!Array.isArray(list) || !Array.isArray(ranges) || ranges.length !== list.length) throw unplaced(kind)
    for (const [index, it] of (list as readonly Value[]).entries()) {
      if (typeof it !== 'string' || !identifier.test(it)) throw unplaced(kind)
      // One object for each place: events name the same picture as often as it stands in a block.
      const range = readRange(kind, ranges[index] as Value, tokenCount)
      mmObjects.push({ mmHash: BigInt(`0x${it.slice(0, 16)}`), offsets: [range] })
    }
  }
  return mmObjects.length === 0 ? undefined : { mmObjects }
}

function readRange(kind: string, value: Value, tokenCount: number): readonly [number, number] {
  const { offset, length } = asRecord(value) ?? {}
  const isRange = Number.isInteger(offset) && Number.isInteger(length)
  const start = Number(offset)
  const end = start + Number(length)
  if (!isRange || start < 0 || end <= start || end > tokenCount) throw unplaced(kind)
  return [start, end]
}

function unplaced(kind: string): LoadOnlyError {
  const { reason } = mediaError(kind)
  return new LoadOnlyError(
    isMediaReason(reason) ? reason : 'media-other',
    `the engine does not say where the ${kind} lies, or by which hash its events name it`,
  )
}
