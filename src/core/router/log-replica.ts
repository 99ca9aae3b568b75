/** What peers told, as bytes of a log. */
import { hashCount } from '../protocol/index.js'
import type { SequenceEvent } from '../sequences/index.js'
import type { ByteReader, ByteWriter } from './byte-codec.js'
import { readOptional, readPair, writeOptional, writePair } from './log-format.js'

const kinds = ['add_request', 'mark_prefill_completed', 'free'] as const

export function writeReplicaEvent(to: ByteWriter, event: SequenceEvent): void {
  const { data } = event
  to.text(event.requestId)
  writePair(to, event.worker)
  to.u64(BigInt.asUintN(64, event.routerId))
  writeOptional(to, event.loraName, (it) => to.text(it))
  to.byte(kinds.indexOf(data.kind))
  if (data.kind !== 'add_request') return
  writeOptional(to, data.tokenSequence, (it) => to.hashes(it, hashCount(it)))
  to.byte(data.trackPrefillTokens ? 1 : 0)
  writeOptional(to, data.expectedOutputTokens, (it) => to.float(it))
  writeOptional(to, data.prefillLoadHint, (hint) => {
    to.float(hint.tokens)
    writeOptional(to, hint.durationMs, (it) => to.float(it))
  })
}

export function readReplicaEvent(from: ByteReader): SequenceEvent {
  const requestId = from.text()
  const worker = readPair(from)
  const routerId = from.u64()
  const loraName = readOptional(from, () => from.text())
  const kind = kinds[from.byte()] ?? 'free'
  if (kind !== 'add_request') return { requestId, worker, routerId, loraName, data: { kind } }
  const tokenSequence = readOptional(from, () => from.hashes())
  const trackPrefillTokens = from.byte() === 1
  const expectedOutputTokens = readOptional(from, () => from.float())
  const prefillLoadHint = readOptional(from, () => {
    const tokens = from.float()
    return { tokens, durationMs: readOptional(from, () => from.float()) }
  })
  const data = { kind, tokenSequence, trackPrefillTokens, expectedOutputTokens, prefillLoadHint }
  return { requestId, worker, routerId, loraName, data }
}
