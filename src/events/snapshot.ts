/**
 * What survives our own restart: per rank the last applied batch and everything that was learned up to it. Bytes in, bytes
 * out; who writes them where is `snapshot-file.ts`. Restored knowledge is not credited before the engine has shown that
 * last batch again, unchanged: another incarnation, or a ring that has moved on, drops it.
 *
 *   "WREV" version  header bytes  header: JSON, padded to 4  words of every rank, in order  crc32 of all before
 */
import { crc32 } from 'node:zlib'
import type { BlockFact, PrefixIndex } from '../core/index/index.js'
import type { Rank, WorkerRank } from '../core/protocol/index.js'
import { comparePairs, WarmrouteError } from '../core/protocol/index.js'
import type { Feed } from './feed.js'
import type { Intake } from './intake.js'
import type { FrameAnchor } from './recent-frames.js'

/** One rank's part. */
export interface RankImage extends WorkerRank {
  /** Where its events came from: another address is another engine. */
  readonly source: string
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
  readonly identityOf: (rank: Rank) => (WorkerRank & { readonly source: string }) | undefined
}

const magic = 0x5645_5257 // "WREV", little-endian
const version = 1
const runBlocksMax = 512
const headerBytesMax = 64 << 20

/** Ranks that are live and have applied something. Lower tiers are left out: they are learned again. */
export function takeSnapshot(context: SnapshotContext): RankImage[] {
  const { intake, device, blockSize } = context
  intake.flush()
  const images: RankImage[] = []
  for (const feed of intake.feeds()) {
    const identity = context.identityOf(feed.rank)
    const anchor = feed.machine.anchor()
    if (!identity || !anchor || feed.machine.state !== 'live') continue
    const { device: copies, namespaces, groups } = feed.ledger.dump()
    const { runs, blockCount } = packRuns(device.facts(feed.rank))
    images.push({
      workerId: identity.workerId,
      dpRank: identity.dpRank,
      source: identity.source,
      anchor,
      // Blocks behind a hole cannot be replayed into an index; they are forgotten, and that is said.
      isComplete: feed.machine.isComplete && blockCount === feed.ledger.deviceBlocks,
      blockSize,
      runs,
      copies,
      namespaces: namespaces.entries,
      names: namespaces.names,
      groups,
    })
  }
  return images.sort(comparePairs)
}

/** Before the feed connects. False: the image belongs to another source or block size and is dropped. */
export function restoreFeed(context: SnapshotContext, feed: Feed, image: RankImage): boolean {
  const identity = context.identityOf(feed.rank)
  if (identity?.source !== image.source || image.blockSize !== context.blockSize) return false
  feed.ledger.load({
    device: image.copies,
    namespaces: { entries: image.namespaces, names: image.names },
    groups: image.groups,
  })
  context.intake.load(feed.rank, image.runs)
  feed.machine.restore(image.anchor, image.isComplete)
  return true
}

export function encodeSnapshot(images: readonly RankImage[]): Uint8Array {
  const header = Buffer.from(
    JSON.stringify(
      images.map(({ runs, copies, namespaces, workerId, ...rest }) => ({
        ...rest,
        workerId: String(workerId),
        words: [runs.length, copies.length, namespaces.length],
      })),
    ),
  )
  const headerBytes = (header.length + 3) & ~3
  const wordCount = images.reduce((sum, it) => sum + it.runs.length + it.copies.length + it.namespaces.length, 0)
  const bytes = new Uint8Array(12 + headerBytes + 4 * wordCount + 4)
  const words = new Uint32Array(bytes.buffer)
  words.set([magic, version, headerBytes])
  bytes.fill(0x20, 12, 12 + headerBytes) // JSON ignores the blanks
  bytes.set(header, 12)
  let at = 3 + headerBytes / 4
  for (const image of images) {
    for (const column of [image.runs, image.copies, image.namespaces]) {
      words.set(column, at)
      at += column.length
    }
  }
  words[at] = crc32(bytes.subarray(0, 4 * at))
  return bytes
}

/** Throws `WR_SNAPSHOT_INVALID` if the bytes are cut off, damaged, of another version or no snapshot at all. */
export function decodeSnapshot(input: Uint8Array): RankImage[] {
  const refuse = (reason: string) => new WarmrouteError('WR_SNAPSHOT_INVALID', { reason, bytes: input.length })
  if (input.length < 16 || input.length % 4 !== 0) throw refuse('too short, or not made of words')
  const bytes = Uint8Array.from(input) // aligned, and safe from later changes
  const words = new Uint32Array(bytes.buffer)
  if (words[0] !== magic) throw refuse('no snapshot of event feeds')
  if (words[1] !== version) throw refuse(`version ${words[1]}, not ${version}`)
  if (words.at(-1) !== crc32(bytes.subarray(0, bytes.length - 4))) throw refuse('the checksum does not match')
  const headerBytes = words[2]!
  if (headerBytes % 4 !== 0 || headerBytes > headerBytesMax || 16 + headerBytes > bytes.length)
    throw refuse('bad header')
  let at = 3 + headerBytes / 4
  const take = (count: number) => {
    if (!Number.isInteger(count) || count < 0 || at + count > words.length - 1) throw refuse('cut off')
    return words.slice(at, (at += count))
  }
  const header = readHeader(bytes.subarray(12, 12 + headerBytes))
  if (header === undefined) throw refuse('bad header')
  return header.map(({ words: [runs, copies, namespaces], workerId, ...rest }) => ({
    ...rest,
    workerId: BigInt(workerId),
    runs: take(runs),
    copies: take(copies),
    namespaces: take(namespaces),
  }))
}

type HeaderEntry = Omit<RankImage, 'workerId' | 'runs' | 'copies' | 'namespaces'> & {
  readonly workerId: string
  readonly words: readonly [number, number, number]
}

/** The checksum vouches for what we once wrote, so only the outline is looked at. */
function readHeader(bytes: Uint8Array): HeaderEntry[] | undefined {
  try {
    const header: unknown = JSON.parse(Buffer.from(bytes).toString('utf8'))
    return Array.isArray(header) ? (header as HeaderEntry[]) : undefined
  } catch {
    return undefined
  }
}

/** Chains of blocks, each the parent of the next, become runs: 16 bytes a block instead of 28. */
function packRuns(facts: Iterable<Readonly<BlockFact>>): { readonly runs: Uint32Array; readonly blockCount: number } {
  let blockCount = 0
  let words = new Uint32Array(4096)
  let used = 0
  let head = -1
  let lastLo = 0
  let lastHi = 0
  for (const fact of facts) {
    if (used + 8 > words.length) words = wider(words)
    const goesOn = head >= 0 && fact.hasParent && fact.parentLo === lastLo && fact.parentHi === lastHi
    if (!goesOn || words[head]! === runBlocksMax) {
      head = used
      words.set([0, fact.hasParent ? 1 : 0, fact.parentLo, fact.parentHi], used)
      used += 4
    }
    words.set([fact.externalLo, fact.externalHi, fact.localLo, fact.localHi], used)
    used += 4
    words[head]!++
    blockCount++
    lastLo = fact.externalLo
    lastHi = fact.externalHi
  }
  return { runs: words.slice(0, used), blockCount }
}

function wider(words: Uint32Array): Uint32Array<ArrayBuffer> {
  const grown = new Uint32Array(2 * words.length)
  grown.set(words)
  return grown
}
