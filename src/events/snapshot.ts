/**
 * What survives our own restart: per rank the last applied batch and everything that was learned up to it, on every tier.
 * Bytes in, bytes out; who writes them where is `snapshot-file.ts`. Restored knowledge is not credited before the engine has
 * shown that last batch again, unchanged: another incarnation, or a ring that has moved on, drops it.
 *
 *   "WREV" version   then a section per rank:   header bytes  words  header: JSON, padded to 4  words  crc32 of the section
 *
 * Ranks are taken one by one, each at its own last batch, and each in steps with turns of the loop between them.
 */
import { crc32 } from 'node:zlib'
import type { Rank, WorkerRank } from '../core/protocol/index.js'
import { storageTiers, WarmrouteError } from '../core/protocol/index.js'
import type { Feed } from './feed.js'
import type { Intake } from './intake.js'
import type { LedgerDump } from './rank-ledger.js'
import type { NamedBlocks, ReadingLimits } from './rank-reading.js'
import { RankReading } from './rank-reading.js'
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
  /** Runs of blocks per tier, as `ReadTier.runs` has them, in the order of `storageTiers`. */
  readonly runs: readonly Uint32Array[]
  readonly ledger: LedgerDump
}

export interface SnapshotContext {
  readonly intake: Intake
  readonly blocks: NamedBlocks
  readonly blockSize: number
  readonly identityOf: (rank: Rank) => RankIdentity | undefined
  readonly limits?: Partial<ReadingLimits>
}

/** A rank that is being read: every step may be turns of the loop after the one before. Undefined: it cannot be taken now. */
export type ImageReading = Generator<undefined, RankImage | undefined, void>

/** Why a rank's part was not even offered to its engine. Stable: they are metric labels. */
export const refusals = ['other_source', 'other_block_size', 'other_incarnation', 'no_replay'] as const

export type RestoreRefusal = (typeof refusals)[number]

const magic = 0x5645_5257 // "WREV", little-endian
const version = 3
export const headerBytesMax = 64 << 20
export const prefaceBytes = 8
const chunkBytes = 1 << 20

/** Every rank with a stream, each read when it is asked for. */
export function* takeSnapshot(context: SnapshotContext): Generator<ImageReading, void, void> {
  const feeds = [...context.intake.feeds()] // who comes or goes meanwhile does not disturb the others
  for (const feed of feeds) yield takeImage(context, feed)
}

function* takeImage({ intake, blocks, blockSize, identityOf, limits }: SnapshotContext, feed: Feed): ImageReading {
  const isTakeable = (): boolean =>
    feed.machine.state === 'live' && feed.machine.anchor() !== undefined && identityOf(feed.rank) !== undefined
  const flush = (): void => intake.flush()
  flush()
  if (!isTakeable()) return undefined
  const reading = new RankReading(blocks, feed.ledger, limits)
  const stop = intake.watch(reading.touched)
  try {
    if (!(yield* reading.read(flush)) || !isTakeable()) return undefined
    // From here on nothing may come between: blocks, copies and anchor are those of one batch.
    reading.readRest()
    const anchor = feed.machine.anchor()!
    const identity = identityOf(feed.rank)!
    const { isComplete } = feed.machine
    const { deviceBlocks } = feed.ledger
    const dump = feed.ledger.dump()
    stop()
    const tiers = yield* reading.pack()
    return {
      ...identity,
      anchor,
      // Blocks behind a hole cannot be replayed into an index; they are forgotten, and that is said.
      isComplete: isComplete && tiers[0]!.blockCount === deviceBlocks,
      blockSize,
      runs: tiers.map(({ runs }) => runs),
      ledger: yield* dump,
    }
  } finally {
    stop()
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
  feed.ledger.load(image.ledger)
  storageTiers.forEach((tier, at) => context.intake.load(feed.rank, tier, image.runs[at]!))
  feed.machine.restore(image.anchor, image.isComplete)
  return undefined
}

export function encodePreface(): Uint8Array {
  return new Uint8Array(Uint32Array.of(magic, version).buffer)
}

/** Whether these are the first bytes of a snapshot that this version reads. */
export function isPreface(bytes: Uint8Array): boolean {
  return Buffer.compare(bytes, encodePreface()) === 0
}

/** One rank's section, in parts that are each quickly made. */
export function* encodeImage({ runs, ledger, workerId, ...rest }: RankImage): Generator<Uint8Array, void, void> {
  const columns = [...runs, ...ledger.copies.map(({ entries }) => entries), ledger.namespaces.entries]
  const outline: Outline = {
    ...rest,
    workerId: String(workerId),
    groups: ledger.groups,
    names: ledger.namespaces.names,
    tables: ledger.copies.map(({ tier, group }) => [tier, group]),
    words: columns.map((it) => it.length),
  }
  const header = Buffer.from(JSON.stringify(outline))
  const headerBytes = (header.length + 3) & ~3
  const first = new Uint8Array(8 + headerBytes)
  new Uint32Array(first.buffer).set([headerBytes, columns.reduce((sum, it) => sum + it.length, 0)])
  first.fill(0x20, 8) // JSON ignores the blanks
  first.set(header, 8)
  let check = crc32(first)
  yield first
  for (const { buffer, byteOffset, byteLength } of columns) {
    for (let from = 0; from < byteLength; from += chunkBytes) {
      const part = new Uint8Array(buffer, byteOffset + from, Math.min(chunkBytes, byteLength - from))
      check = crc32(part, check)
      yield part
    }
  }
  yield new Uint8Array(Uint32Array.of(check).buffer)
}

export function sectionBytes({ runs, ledger }: RankImage): number {
  const columns = [...runs, ...ledger.copies.map(({ entries }) => entries), ledger.namespaces.entries]
  return columns.reduce((sum, it) => sum + it.byteLength, 12)
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

type Outline = Omit<RankImage, 'workerId' | 'runs' | 'ledger'> & {
  readonly workerId: string
  readonly groups: LedgerDump['groups']
  readonly names: LedgerDump['namespaces']['names']
  /** Tier and cache group of each table of copies. */
  readonly tables: readonly (readonly [number, number])[]
  readonly words: readonly number[]
}

/** The checksum vouches for what we once wrote, so only the outline is looked at. */
function readSection(header: Uint8Array, words: Uint32Array): RankImage | undefined {
  const outline = parseOutline(header)
  if (!outline || outline.words.length !== storageTiers.length + outline.tables.length + 1) return undefined
  if (outline.words.reduce((sum, count) => sum + count, 0) !== words.length) return undefined
  const { words: counts, workerId, tables, groups, names, ...rest } = outline
  let from = 0
  const columns = counts.map((count) => words.slice(from, (from += count)))
  const copies = tables.map(([tier, group], at) => ({ tier, group, entries: columns[storageTiers.length + at]! }))
  return {
    ...rest,
    workerId: BigInt(workerId),
    runs: columns.slice(0, storageTiers.length),
    ledger: { copies, groups, namespaces: { entries: columns.at(-1)!, names } },
  }
}

/** Whose section it is, from its header; undefined: no header of this version. */
export function sourceOf(header: Uint8Array): string | undefined {
  return parseOutline(header)?.source
}

function parseOutline(header: Uint8Array): Outline | undefined {
  try {
    const outline = JSON.parse(Buffer.from(header).toString('utf8')) as Outline | null
    const isOutline = typeof outline === 'object' && Array.isArray(outline?.words) && Array.isArray(outline.tables)
    return isOutline ? outline : undefined
  } catch {
    return undefined
  }
}
