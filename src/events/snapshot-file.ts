/** A snapshot on disk: replaced whole or not at all, so that a process killed while it writes leaves the last good one. */
import { open, readFile, rename, rm, stat } from 'node:fs/promises'
import { WarmrouteError } from '../core/protocol/index.js'
import type { RankImage } from './snapshot.js'
import { decodeSnapshot, encodeSnapshot } from './snapshot.js'

const fileBytesMax = 4 * 2 ** 30 - 1

export async function saveSnapshot(path: string, images: readonly RankImage[]): Promise<void> {
  const draft = `${path}.${process.pid}.tmp`
  try {
    const file = await open(draft, 'w', 0o600) // it names prompts by their hashes: for our eyes only
    try {
      await file.writeFile(encodeSnapshot(images))
      await file.sync()
    } finally {
      await file.close()
    }
    await rename(draft, path)
  } catch (cause) {
    await rm(draft, { force: true })
    throw cause
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
