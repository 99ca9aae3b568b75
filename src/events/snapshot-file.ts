/** A snapshot on disk: replaced whole or not at all, so that a process killed while it writes leaves the last good one. */
import { open, readFile, rename, rm, stat } from 'node:fs/promises'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { WarmrouteError } from '../core/protocol/index.js'
import type { RankImage } from './snapshot.js'
import { decodeSnapshot, encodeImage, encodePreface } from './snapshot.js'

const fileBytesMax = 2 ** 31 - 1

export interface SavedSnapshot {
  readonly ranks: number
  readonly bytes: number
  /** Ranks that would have made the file larger than one that can be read again. */
  readonly leftOut: number
  /** The longest time for which one rank held the loop. */
  readonly longestMs: number
}

/** Takes and writes rank by rank, with a turn of the loop between them. One at a time per path. */
export async function saveSnapshot(path: string, images: Iterable<RankImage>): Promise<SavedSnapshot> {
  const draft = `${path}.tmp` // always the same: a process that is killed here leaves one behind, not one each time
  try {
    const file = await open(draft, 'w', 0o600) // prompts by their hashes, and salts as they are: for our eyes only
    let saved: SavedSnapshot
    try {
      saved = await writeImages(file, images)
      await file.sync()
    } finally {
      await file.close()
    }
    await rename(draft, path)
    return saved
  } catch (cause) {
    await rm(draft, { force: true })
    throw cause
  }
}

async function writeImages(
  file: { writeFile(bytes: Uint8Array): Promise<void> },
  images: Iterable<RankImage>,
): Promise<SavedSnapshot> {
  const preface = encodePreface()
  await file.writeFile(preface)
  let [ranks, bytes, leftOut, longestMs] = [0, preface.length, 0, 0]
  const each = images[Symbol.iterator]()
  for (;;) {
    await nextTurn()
    const started = performance.now()
    const next = each.next()
    if (next.done) return { ranks, bytes, leftOut, longestMs }
    const section = encodeImage(next.value)
    longestMs = Math.max(longestMs, performance.now() - started)
    if (bytes + section.length > fileBytesMax) {
      leftOut++
      continue
    }
    await file.writeFile(section)
    ranks++
    bytes += section.length
  }
}

/** Undefined: there is none. Throws `WR_SNAPSHOT_INVALID` for one that cannot be used. */
export async function loadSnapshot(path: string): Promise<RankImage[] | undefined> {
  const size = await stat(path).then(
    (it) => it.size,
    () => undefined,
  )
  if (size === undefined) return undefined
  if (size > fileBytesMax) throw new WarmrouteError('WR_SNAPSHOT_INVALID', { reason: 'too large', bytes: size })
  return decodeSnapshot(await readFile(path))
}
