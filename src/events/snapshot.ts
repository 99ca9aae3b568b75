/**
 * What survives our own restart: per rank the last applied batch and everything that was learned up to it. Bytes in, bytes
 * out; who writes them where is `snapshot-file.ts`. Restored knowledge is not credited before the engine has shown that
 * last batch again, unchanged: another incarnation, or a ring that has moved on, drops it.
 *
 *   "WREV" version   then a section per rank:   header bytes  words  header: JSON, padded to 4  words  crc32 of the section
 *
 * Ranks are taken one by one, each at its own last batch, so that nobody waits for all of them at once.
 */
import { crc32 } from 'node:zlib'
import type { BlockFact, PrefixIndex } from '../core/index/index.js'
import type { Rank, WorkerRank } from '../core/protocol/index.js'
import { WarmrouteError } from '../core/protocol/index.js'
import type { Feed } from './feed.js'
import type { Intake } from './intake.js'
import type { FrameAnchor } from './recent-frames.js'

/** Which engine a rank's events come from. */
export interface RankIdentity extends WorkerRank {
  /** Where its events come from: another address is another engine. */
  readonly source: string
  /** Differs between processes of the engine; undefined where it does not say. */
  readonly incarnation?: string | undefined
}

/** One rank's part. */
export interface RankImage extends RankIdentity {
  readonly anchor: FrameAnchor
  readonly isComplete: boolean
  readonly blockSize: number
  /** Runs of blocks: count, has parent, parent (2 words), then per block external and local hash (4 words). */
  readonly runs: Uint32Array
  /** Copies per hash, as the ledger keeps them. */
  readonly copies: Uint32Array
  readonly namespaces: Uint32Array
  readonly names: Readonly<Record<number, string>>
  readonly groups: readonly (readonly [number, number])[]
}

export interface SnapshotContext {
  readonly intake: Intake
  readonly device: Pick<PrefixIndex, 'facts'>
  readonly blockSize: number
  readonly identityOf: (rank: Rank) => RankIdentity | undefined
}

/** Why a rank's part was not even offered to its engine. Stable: they are metric labels. */
export const refusals = ['other_source', 'other_block_size', 'other_incarnation', 'no_replay'] as const

export type RestoreRefusal = (typeof refusals)[number]

const magic = 0x5645_5257 // "WREV", little-endian
const version = 2
const runBlocksMax = 512
const headerBytesMax = 64 << 20
const prefaceBytes = 8

/** Ranks that are live and have applied something, each taken when it is asked for. Lower tiers are learned again. */
export function* takeSnapshot(context: SnapshotContext): Generator<RankImage, void, void> {
  for (const feed of context.intake.feeds()) {
    const image = takeImage(context, feed)
    if (image) yield image
  }
}

function takeImage({ intake, device, blockSize, identityOf }: SnapshotContext, feed: Feed): RankImage | undefined {
  const identity = identityOf(feed.rank)
  const anchor = feed.machine.anchor()
  if (!identity || !anchor || feed.machine.state !== 'live') return undefined
  intake.flush()
  const { device: copies, namespaces, groups } = feed.ledger.dump()
  const { runs, blockCount } = packRuns(device.facts(feed.rank), feed.ledger.deviceBlocks)
  return {
    ...identity,
    anchor,
    // Blocks behind a hole cannot be replayed into an index; they are forgotten, and that is said.
    isComplete: feed.machine.isComplete && blockCount === feed.ledger.deviceBlocks,
    blockSize,
    runs,
    copies,
    namespaces: namespaces.entries,
    names: namespaces.names,
    groups,
  }
}

/** Before the feed connects. Undefined: it is offered to the engine, who must prove it. Otherwise why it is dropped. */
export function restoreFeed(context: SnapshotContext, feed: Feed, image: RankImage): RestoreRefusal | undefined {
  const identity = context.identityOf(feed.rank)
  if (identity?.source !== image.source) return 'other_source'
  if (image.blockSize !== context.blockSize) return 'other_block_size'
  const { incarnation } = identity
  if (incarnation !== undefined && image.incarnation !== undefined && incarnation !== image.incarnation)
    return 'other_incarnation'
  if (!feed.hasReplay) return 'no_replay'
  feed.ledger.load({
    device: image.copies,
    namespaces: { entries: image.namespaces, names: image.names },
    groups: image.groups,
  })
  context.intake.load(feed.rank, image.runs)
  feed.machine.restore(image.anchor, image.isComplete)
  return undefined
}

export function encodePreface(): Uint8Array {
  return new Uint8Array(Uint32Array.of(magic, version).buffer)
}

/** One rank's section. */
export function encodeImage({ runs, copies, namespaces, workerId, ...rest }: RankImage): Uint8Array {
  const columns = [runs, copies, namespaces]
  const outline = { ...rest, workerId: String(workerId), words: columns.map((it) => it.length) }
  const header = Buffer.from(JSON.stringify(outline))
  const headerBytes = (header.length + 3) & ~3
  const wordCount = columns.reduce((sum, it) => sum + it.length, 0)
  const bytes = new Uint8Array(8 + headerBytes + 4 * wordCount + 4)
  const words = new Uint32Array(bytes.buffer)
  words.set([headerBytes, wordCount])
  bytes.fill(0x20, 8, 8 + headerBytes) // JSON ignores the blanks
  bytes.set(header, 8)
  let at = 2 + headerBytes / 4
  for (const column of columns) {
    words.set(column, at)
    at += column.length
  }
  words[at] = crc32(bytes.subarray(0, 4 * at))
  return bytes
}

/** Throws `WR_SNAPSHOT_INVALID` if the bytes are cut off, damaged, of another version or no snapshot at all. */
export function decodeSnapshot(input: Uint8Array): RankImage[] {
  const refuse = (reason: string) => new WarmrouteError('WR_SNAPSHOT_INVALID', { reason, bytes: input.length })
  if (input.length < prefaceBytes || input.length % 4 !== 0) throw refuse('too short, or not made of words')
  const bytes = input.byteOffset % 4 === 0 ? input : Uint8Array.from(input)
  const words = new Uint32Array(bytes.buffer, bytes.byteOffset, bytes.length / 4)
  if (words[0] !== magic) throw refuse('no snapshot of event feeds')
  if (words[1] !== version) throw refuse(`version ${words[1]}, not ${version}`)
  const images: RankImage[] = []
  for (let at = prefaceBytes / 4; at < words.length; ) {
    const headerBytes = words[at]!
    const wordCount = words[at + 1] ?? 0
    const start = at + 2 + headerBytes / 4
    const end = start + wordCount
    if (headerBytes % 4 !== 0 || headerBytes > headerBytesMax || end >= words.length) throw refuse('cut off')
    if (words[end] !== crc32(bytes.subarray(4 * at, 4 * end))) throw refuse('a checksum does not match')
    const image = readSection(bytes.subarray(4 * (at + 2), 4 * start), words.subarray(start, end))
    if (!image) throw refuse('bad header')
    images.push(image)
    at = end + 1
  }
  return images
}

type Outline = Omit<RankImage, 'workerId' | 'runs' | 'copies' | 'namespaces'> & {
  readonly workerId: string
  readonly words: readonly [number, number, number]
}

/** The checksum vouches for what we once wrote, so only the outline is looked at. */
function readSection(header: Uint8Array, words: Uint32Array): RankImage | undefined {
  const outline = parseOutline(header)
  if (!outline || outline.words.reduce((sum, count) => sum + count, 0) !== words.length) return undefined
  const { words: counts, workerId, ...rest } = outline
  const [runs, copies] = counts
  return {
    ...rest,
    workerId: BigInt(workerId),
    runs: words.slice(0, runs),
    copies: words.slice(runs, runs + copies),
    namespaces: words.slice(runs + copies),
  }
}

function parseOutline(header: Uint8Array): Outline | undefined {
  try {
    const outline = JSON.parse(Buffer.from(header).toString('utf8')) as Outline | null
    return typeof outline === 'object' && Array.isArray(outline?.words) ? outline : undefined
  } catch {
    return undefined
  }
}

/** Chains of blocks, each the parent of the next, become runs: 16 bytes a block instead of 28. */
function packRuns(
  facts: Iterable<Readonly<BlockFact>>,
  blocksExpected: number,
): { readonly runs: Uint32Array; readonly blockCount: number } {
  let blockCount = 0
  let words = new Uint32Array(4096 + 5 * blocksExpected)
  let used = 0
  let head = -1
  let lastLo = 0
  let lastHi = 0
  // Element by element: a `set` of a small list costs more than everything else here, a million times.
  for (const fact of facts) {
    if (used + 8 > words.length) words = wider(words)
    const goesOn = head >= 0 && fact.hasParent && fact.parentLo === lastLo && fact.parentHi === lastHi
    if (!goesOn || words[head]! === runBlocksMax) {
      head = used
      words[used] = 0
      words[used + 1] = fact.hasParent ? 1 : 0
      words[used + 2] = fact.parentLo
      words[used + 3] = fact.parentHi
      used += 4
    }
    words[used] = lastLo = fact.externalLo
    words[used + 1] = lastHi = fact.externalHi
    words[used + 2] = fact.localLo
    words[used + 3] = fact.localHi
    used += 4
    words[head]!++
    blockCount++
  }
  return { runs: words.subarray(0, used), blockCount }
}

function wider(words: Uint32Array): Uint32Array<ArrayBuffer> {
  const grown = new Uint32Array(2 * words.length)
  grown.set(words)
  return grown
}
