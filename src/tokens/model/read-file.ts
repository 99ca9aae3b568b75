/** One file of a model's folder, packed or not. */
import { existsSync, readFileSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { gunzipSync } from 'node:zlib'
import { WarmrouteError } from '../../core/protocol/index.js'

const fileBytesMax = 256 << 20

/** Its content; undefined where there is none. */
export function readJson(folder: string, name: string): unknown {
  const bytes = readBytes(folder, name, fileBytesMax)
  if (bytes === undefined) return undefined
  try {
    return JSON.parse(bytes.toString('utf8')) as unknown
  } catch (cause) {
    throw new WarmrouteError('WR_TOKENS_BAD_TOKENIZER', { reason: `${name} is no JSON`, folder }, { cause })
  }
}

/** A file, packed or not; undefined where there is none. How long it is is known before its memory is taken. */
export function readBytes(folder: string, name: string, bytesMax: number): Buffer | undefined {
  const path = join(folder, name)
  const packed = `${path}.gz`
  const found = [path, packed].find((it) => existsSync(it))
  if (found === undefined) return undefined
  const refuse = (cause?: unknown): never => {
    throw new WarmrouteError('WR_TOKENS_BAD_TOKENIZER', { reason: `${name} is too large`, folder }, { cause })
  }
  if (statSync(found).size > bytesMax) return refuse()
  const bytes = readFileSync(found)
  if (found === path) return bytes
  try {
    return gunzipSync(bytes, { maxOutputLength: bytesMax })
  } catch (cause) {
    if ((cause as NodeJS.ErrnoException).code === 'ERR_BUFFER_TOO_LARGE') return refuse(cause)
    throw new WarmrouteError('WR_TOKENS_BAD_TOKENIZER', { reason: `${name}.gz cannot be unpacked`, folder }, { cause })
  }
}

/** Tokens are made without it: one that cannot be read tells nothing. */
export function readOrNothing(folder: string, name: string): unknown {
  try {
    return readJson(folder, name)
  } catch {
    return undefined
  }
}
