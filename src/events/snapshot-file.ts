/** A snapshot on disk: replaced whole or not at all, so that a process killed while it writes leaves the last good one. */
import type { FileHandle } from 'node:fs/promises'
import { open, rename, rm } from 'node:fs/promises'
import { crc32 } from 'node:zlib'
import { WarmrouteError } from '../core/protocol/index.js'
import type { ImageReading, RankImage } from './snapshot.js'
import {
  encodeImage,
  encodePreface,
  headerBytesMax,
  isPreface,
  prefaceBytes,
  readSnapshot,
  sectionBytes,
  sourceOf,
} from './snapshot.js'
import { inTurns } from './turns.js'

const fileBytesMax = 2 ** 31 - 1
const chunkBytes = 1 << 20

export interface SavedSnapshot {
  readonly ranks: number
  /** Ranks that could not be read now, of whom the part before was kept. */
  readonly kept: number
  readonly bytes: number
  /** Ranks that would have made the file larger than one that can be read again. */
  readonly leftOut: number
  /** The longest time for which the loop was held at once. */
  readonly longestMs: number
  /** Whose parts are in it. */
  readonly sources: ReadonlySet<string>
}

export interface SaveOptions {
  /** Whether the part of a rank that cannot be read now is taken over from the snapshot before. Default: no. */
  readonly keeps?: (source: string) => boolean
}

/** Reads and writes rank by rank, with turns of the loop between and within them. One at a time per path. */
export async function saveSnapshot(
  path: string,
  readings: Iterable<ImageReading>,
  { keeps }: SaveOptions = {},
): Promise<SavedSnapshot> {
  const draft = `${path}.tmp` // always the same: a process that is killed here leaves one behind, not one each time
  try {
    const file = await open(draft, 'w', 0o600) // prompts by their hashes, and salts as they are: for our eyes only
    let saved: SavedSnapshot
    try {
      const writer = new SectionWriter(file)
      await writer.writeAll(readings)
      if (keeps) await writer.keepFrom(path, keeps)
      saved = writer.saved
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

class SectionWriter {
  readonly #file: FileHandle
  readonly #sources = new Set<string>()
  #at = 0
  #ranks = 0
  #kept = 0
  #leftOut = 0
  #longestMs = 0

  constructor(file: FileHandle) {
    this.#file = file
  }

  get saved(): SavedSnapshot {
    return {
      ranks: this.#ranks,
      kept: this.#kept,
      bytes: this.#at,
      leftOut: this.#leftOut,
      longestMs: this.#longestMs,
      sources: this.#sources,
    }
  }

  async writeAll(readings: Iterable<ImageReading>): Promise<void> {
    await this.#write(encodePreface())
    const onTurn = (ms: number): void => void (this.#longestMs = Math.max(this.#longestMs, ms))
    for (const reading of readings) {
      const image = await inTurns(reading, { onTurn })
      if (!image) continue
      if (this.#at + sectionBytes(image) + headerBytesMax > fileBytesMax) {
        this.#leftOut++
        continue
      }
      for (const part of encodeImage(image)) await this.#write(part)
      this.#ranks++
      this.#sources.add(image.source)
    }
  }

  /** Parts of the snapshot before, byte for byte; one that is damaged ends it. */
  async keepFrom(path: string, keeps: (source: string) => boolean): Promise<void> {
    const old = await open(path, 'r').catch(() => undefined)
    if (!old) return
    try {
      const { size } = await old.stat()
      if (size < prefaceBytes || !isPreface(await readAt(old, 0, prefaceBytes))) return
      for (let at = prefaceBytes; at + 12 <= size; ) {
        const lengths = await readAt(old, at, 8)
        const [headerBytes, wordCount] = new Uint32Array(lengths.buffer, lengths.byteOffset, 2)
        const end = at + 8 + headerBytes! + 4 * wordCount! + 4
        if (headerBytes! > headerBytesMax || end > size) return
        const source = sourceOf(await readAt(old, at + 8, headerBytes!))
        const isWanted = source !== undefined && !this.#sources.has(source) && keeps(source)
        if (isWanted && this.#at + (end - at) > fileBytesMax) this.#leftOut++
        else if (isWanted && !(await this.#copy(old, at, end, source))) return
        at = end
      }
    } finally {
      await old.close()
    }
  }

  async #copy(old: FileHandle, from: number, end: number, source: string): Promise<boolean> {
    const start = this.#at
    let check = 0
    for (let at = from; at < end - 4; at += chunkBytes) {
      const part = await readAt(old, at, Math.min(chunkBytes, end - 4 - at))
      check = crc32(part, check)
      await this.#write(part)
    }
    const last = await readAt(old, end - 4, 4)
    if (last.readUInt32LE() === check) {
      await this.#write(last)
      this.#sources.add(source)
      this.#kept++
      return true
    }
    await this.#file.truncate(start)
    this.#at = start
    return false
  }

  async #write(bytes: Uint8Array): Promise<void> {
    for (let from = 0; from < bytes.length; ) {
      const { bytesWritten } = await this.#file.write(bytes, from, bytes.length - from, this.#at)
      from += bytesWritten
      this.#at += bytesWritten
    }
  }
}

/** Throws where the file ends before. */
async function readAt(file: FileHandle, at: number, length: number): Promise<Buffer<ArrayBuffer>> {
  const bytes = Buffer.alloc(length)
  await fill(file, at, bytes)
  return bytes
}

async function fill(file: FileHandle, at: number, into: Uint8Array): Promise<void> {
  const { bytesRead } = await file.read(into, 0, into.length, at)
  if (bytesRead < into.length)
    throw new WarmrouteError('WR_SNAPSHOT_INVALID', { reason: 'cut off', bytes: at + bytesRead })
}

/** In pieces, with turns of the loop between them. Undefined: there is none. Throws `WR_SNAPSHOT_INVALID` for one that cannot be used. */
export async function loadSnapshot(path: string): Promise<RankImage[] | undefined> {
  const file = await open(path, 'r').catch(() => undefined)
  if (!file) return undefined
  try {
    const { size } = await file.stat()
    if (size > fileBytesMax) throw new WarmrouteError('WR_SNAPSHOT_INVALID', { reason: 'too large', bytes: size })
    const reading = readSnapshot(size)
    for (;;) {
      const step = reading.next()
      if (step.done) return step.value
      await fill(file, step.value.at, step.value.into)
    }
  } finally {
    await file.close()
  }
}
