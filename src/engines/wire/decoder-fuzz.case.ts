/**
 * Goal: no byte string makes the decoder throw, hang, or leave columns that point outside of themselves.
 * Method: random bytes, and recorded frames with bytes flipped, cut, doubled, spliced and counts turned into lies.
 */
import { eventRecordings, fromHex, readRecording } from '../../../test/recordings.js'
import { DecodedBatch, decodeReasons, eventKind } from '../../events/index.js'
import { KvEventDecoder } from './kv-event-decoder.js'

export interface DecoderFuzzTotals {
  readonly cases: number
  readonly decoded: number
  readonly refused: Readonly<Record<string, number>>
}

const heads = [
  0x80, 0x8f, 0x90, 0x9f, 0xa0, 0xbf, 0xc0, 0xc1, 0xc4, 0xc6, 0xc9, 0xcb, 0xcf, 0xd3, 0xd9, 0xdb, 0xdd, 0xdf,
]

export function fuzzDecoder(seed: number, cases: number): DecoderFuzzTotals {
  const random = newRandom(seed)
  const recorded = recordedPayloads()
  const scratch = new Uint8Array(32_768)
  const batch = new DecodedBatch()
  const decoders = [new KvEventDecoder('stock'), new KvEventDecoder('upstream')]
  const refused: Record<string, number> = {}
  let decoded = 0
  for (let index = 0; index < cases; index++) {
    const payload = index % 8 === 0 ? randomBytes(random, scratch) : mutate(random, recorded, scratch)
    const reason = decoders[index & 1]!.decode(payload, batch)
    if (reason !== undefined && !decodeReasons.includes(reason)) throw new Error(`no such reason: ${String(reason)}`)
    judgeColumns(batch, payload.length)
    if (reason) refused[reason] = (refused[reason] ?? 0) + 1
    else decoded++
    if (reason && batch.eventCount > 0) throw new Error('a refused batch left events behind')
  }
  return { cases, decoded, refused }
}

function judgeColumns(batch: DecodedBatch, size: number): void {
  let hashes = 0
  let tokens = 0
  for (let event = 0; event < batch.eventCount; event++) {
    if (batch.kind[event]! > eventKind.ignored) throw new Error('an event of no kind')
    if (batch.hashStart[event] !== hashes || batch.tokenStart[event] !== tokens) throw new Error('columns do not join')
    hashes += batch.hashCount[event]!
    tokens += batch.tokenCount[event]!
  }
  if (hashes !== batch.hashTotal || tokens !== batch.tokenTotal) throw new Error('columns and events disagree')
  if (hashes > size || tokens > size) throw new Error('more came out than went in')
  for (let media = 0; media < batch.mediaTotal; media++) {
    if (batch.mediaEvent[media]! >= batch.eventCount) throw new Error('media of no event')
  }
}

/** Small frames only: a mutation then hits structure more often than token ids. */
function recordedPayloads(): Uint8Array[] {
  return eventRecordings
    .flatMap((name) => readRecording(name))
    .flatMap((line) => (line.kind === 'zmq' ? [fromHex(line.frames[2])] : []))
    .filter((payload) => payload.length < 12_000)
    .sort((a, b) => a.length - b.length)
}

function randomBytes(random: () => number, scratch: Uint8Array): Uint8Array {
  const length = random() % 64
  for (let index = 0; index < length; index++) {
    scratch[index] = random() % 3 === 0 ? heads[random() % heads.length]! : random() & 0xff
  }
  if (random() % 2 === 0) scratch[0] = 0x93
  return scratch.subarray(0, length)
}

function mutate(random: () => number, recorded: readonly Uint8Array[], scratch: Uint8Array): Uint8Array {
  // Squaring prefers the small ones: the large carry thousands of tokens and one structure.
  const pick = (random() / 2 ** 32) ** 2
  const source = recorded[Math.floor(pick * recorded.length)]!
  scratch.set(source)
  let length = source.length
  const edits = random() % 5
  for (let edit = 0; edit < edits; edit++) {
    const at = random() % Math.max(1, random() % 2 === 0 ? Math.min(length, 80) : length)
    switch (random() % 6) {
      case 0:
        scratch[at] = random() & 0xff
        break
      case 1:
        scratch[at] = heads[random() % heads.length]!
        break
      case 2:
        length = at
        break
      case 3: {
        const from = random() % Math.max(1, length)
        const count = Math.min(random() % 32, length - from, scratch.length - at)
        scratch.copyWithin(at, from, from + count)
        break
      }
      case 4: {
        const other = recorded[random() % recorded.length]!
        const count = Math.min(random() % 64, other.length, scratch.length - at)
        scratch.set(other.subarray(0, count), at)
        length = Math.max(length, at + count)
        break
      }
      default:
        scratch[at] = (scratch[at]! + 1) & 0xff
    }
  }
  return scratch.subarray(0, length)
}

/** xorshift32: the same seed gives the same run. */
function newRandom(seed: number): () => number {
  let state = seed | 0 || 1
  return () => {
    state ^= state << 13
    state ^= state >>> 17
    state ^= state << 5
    return state >>> 0
  }
}
