/** Whether a file can be written that a command fills at its end: asked before minutes of work, and nothing is left behind. */
import { closeSync, openSync, statSync, unlinkSync } from 'node:fs'
import { WarmrouteError } from '../core/protocol/index.js'

/** Throws `WR_INVALID_ARGUMENT` with the flag and what the system said. What is in the file stays. */
export function proveWritable(flag: string, path: string | undefined): void {
  if (path === undefined) return
  try {
    const known = statSync(path, { throwIfNoEntry: false })
    if (known && !known.isFile() && !known.isDirectory()) return // a pipe or a terminal: asking would be heard
    closeSync(openSync(path, 'a'))
    if (!known) unlinkSync(path)
  } catch (cause) {
    const reason = `${flag} ${path} cannot be written: ${(cause as Error).message}`
    throw new WarmrouteError('WR_INVALID_ARGUMENT', { reason }, { cause })
  }
}
