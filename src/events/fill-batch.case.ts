/** Batches from plain objects, for tests of everything behind the decoder. A payload is a number in a list of batches. */
import { setHashAt, toHashColumn } from '../core/protocol/index.js'
import type { BatchDecoder, DecodedBatch, DecodeReason } from './decoded-batch.js'
import { attentionCode, eventKind, localityCode, ownershipCode, tierCode } from './decoded-batch.js'

export interface PlainEvent {
  readonly kind: keyof typeof eventKind
  readonly hashes?: readonly bigint[]
  readonly parent?: bigint
  readonly tokens?: readonly number[]
  readonly blockSize?: number
  readonly tier?: keyof typeof tierCode
  readonly locality?: keyof typeof localityCode
  readonly ownership?: keyof typeof ownershipCode
  readonly attention?: keyof typeof attentionCode
  readonly group?: number
  readonly adapter?: string
  readonly namespace?: string
  readonly isEagle?: boolean
  readonly isOpaque?: boolean
  readonly media?: readonly (readonly [block: number, hash: bigint])[]
}

export function fillBatch(batch: DecodedBatch, events: readonly PlainEvent[], dpRank = 0): void {
  batch.reset()
  batch.dpRank = dpRank
  for (const plain of events) fillEvent(batch, plain)
}

function fillEvent(batch: DecodedBatch, plain: PlainEvent): void {
  const event = batch.open(eventKind[plain.kind])
  const hashes = plain.hashes ?? []
  const tokens = plain.tokens ?? []
  batch.reserveHashes(hashes.length)
  batch.hashes.set(toHashColumn(hashes), 2 * batch.hashTotal)
  batch.hashTotal += batch.hashCount[event] = hashes.length
  batch.reserveTokens(tokens.length)
  batch.tokens.set(tokens, batch.tokenTotal)
  batch.tokenTotal += batch.tokenCount[event] = tokens.length
  batch.blockSize[event] = plain.blockSize ?? 2
  batch.tier[event] = tierCode[plain.tier ?? 'device']
  batch.locality[event] = localityCode[plain.locality ?? 'local']
  batch.ownership[event] = ownershipCode[plain.ownership ?? 'framework']
  batch.attention[event] = attentionCode[plain.attention ?? 'absent']
  batch.group[event] = plain.group ?? -1
  batch.adapter[event] = plain.adapter
  batch.namespace[event] = plain.namespace
  batch.isEagle[event] = plain.isEagle ? 1 : 0
  batch.isOpaque[event] = plain.isOpaque ? 1 : 0
  batch.hasParent[event] = plain.parent === undefined ? 0 : 1
  if (plain.parent !== undefined) setHashAt(batch.parents, event, plain.parent)
  for (const [block, hash] of plain.media ?? []) {
    batch.addMedia(event, block, Number(hash & 0xffff_ffffn), Number(hash >> 32n))
  }
}

/** Decodes a payload's first byte as a place in `batches`; a missing place cannot be read. */
export class PlainDecoder implements BatchDecoder {
  readonly batches: { readonly events: readonly PlainEvent[]; readonly dpRank?: number }[] = []

  add(events: readonly PlainEvent[], dpRank?: number): Uint8Array {
    this.batches.push(dpRank === undefined ? { events } : { events, dpRank })
    return Uint8Array.of(this.batches.length - 1)
  }

  decode(payload: Uint8Array, into: DecodedBatch): DecodeReason | undefined {
    const batch = this.batches[payload[0]!]
    if (!batch) return 'not_a_batch'
    fillBatch(into, batch.events, batch.dpRank)
    return undefined
  }

  timestampOf(payload: Uint8Array): number {
    return payload[0]!
  }
}
