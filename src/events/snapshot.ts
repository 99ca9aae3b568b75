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

/** A rank whose part is put in its place. */
export type FeedRestoring = Generator<undefined, RestoreRefusal | undefined, void>

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

/**
 * Before the feed connects, in steps that may be turns of the loop apart. Undefined: it is offered to the engine, who must
 * prove it. Otherwise why it is dropped.
 */
export function* restoreFeed(context: SnapshotContext, feed: Feed, image: RankImage): FeedRestoring {
  const identity = context.identityOf(feed.rank)
  if (identity?.source !== image.source) return 'other_source'
  if (image.blockSize !== context.blockSize) return 'other_block_size'
  const { incarnation } = identity
  if (incarnation !== undefined && image.incarnation !== undefined && incarnation !== image.incarnation)
    return 'other_incarnation'
  if (!feed.hasReplay) return 'no_replay'
  // First of all, so that whatever voids it meanwhile empties the rank and says so.
  feed.machine.restore(image.anchor, image.isComplete)
  const { timesEmptied } = feed
  for (const _ of loadImage(context.intake, feed, image)) {
    yield
    if (feed.timesEmptied !== timesEmptied) return undefined
  }
  return undefined
}

function* loadImage(intake: Intake, feed: Feed, { ledger, runs }: RankImage): Generator<undefined, void, void> {
  yield* feed.ledger.load(ledger)
  for (const [at, tier] of storageTiers.entries()) yield* intake.load(feed.rank, tier, runs[at]!)
}

export function encodePreface(): Uint8Array {
  return bytesOf(Uint32Array.of(magic, version))
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
  for (const column of columns) {
    for (const part of chunksOf(column)) {
      check = crc32(part, check)
      yield part
    }
  }
  yield bytesOf(Uint32Array.of(check))
}

export function sectionBytes({ runs, ledger }: RankImage): number {
  const columns = [...runs, ...ledger.copies.map(({ entries }) => entries), ledger.namespaces.entries]
  return columns.reduce((sum, it) => sum + it.byteLength, 12)
}

/** Bytes of a snapshot that are wanted next. */
export interface WantedBytes {
  readonly at: number
  readonly into: Uint8Array
}

/**
 * Reads a snapshot of `size` bytes, each piece filled in by the caller before the next step. Throws `WR_SNAPSHOT_INVALID` if it
 * is cut off, damaged, of another version or none at all.
 */
export function* readSnapshot(size: number): Generator<WantedBytes, RankImage[], void> {
  const refuse = (reason: string) => new WarmrouteError('WR_SNAPSHOT_INVALID', { reason, bytes: size })
  if (size < prefaceBytes || size % 4 !== 0) throw refuse('too short, or not made of words')
  const [kind, written] = yield* readWords(0, new Uint32Array(prefaceBytes / 4))
  if (kind !== magic) throw refuse('no snapshot of event feeds')
  if (written !== version) throw refuse(`version ${written}, not ${version}`)
  const images: RankImage[] = []
  for (let at = prefaceBytes; at < size; ) {
    if (at + 8 > size) throw refuse('cut off')
    const lengths = yield* readWords(at, new Uint32Array(2))
    const [headerBytes, wordCount] = lengths as Uint32Array & [number, number]
    const start = at + 8 + headerBytes
    const end = start + 4 * wordCount
    if (headerBytes % 4 !== 0 || headerBytes > headerBytesMax || end + 4 > size) throw refuse('cut off')
    const header = new Uint8Array(headerBytes)
    yield { at: at + 8, into: header }
    const words = new Uint32Array(wordCount)
    let check = crc32(header, crc32(bytesOf(lengths)))
    for (const part of chunksOf(words)) {
      yield { at: start + part.byteOffset, into: part }
      check = crc32(part, check)
    }
    const [expected] = yield* readWords(end, new Uint32Array(1))
    if (expected !== check) throw refuse('a checksum does not match')
    const image = readSection(header, words)
    if (!image) throw refuse('bad header')
    images.push(image)
    at = end + 4
  }
  return images
}

function* readWords(at: number, words: Uint32Array): Generator<WantedBytes, Uint32Array, void> {
  yield { at, into: bytesOf(words) }
  return words
}

function bytesOf({ buffer, byteOffset, byteLength }: Uint32Array): Uint8Array {
  return new Uint8Array(buffer, byteOffset, byteLength)
}

/** The bytes of words, so many at a time that each is quickly done. */
function* chunksOf(words: Uint32Array): Generator<Uint8Array, void, void> {
  const bytes = bytesOf(words)
  for (let from = 0; from < bytes.length; from += chunkBytes) yield bytes.subarray(from, from + chunkBytes)
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
  const columns = counts.map((count) => words.subarray(from, (from += count)))
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
