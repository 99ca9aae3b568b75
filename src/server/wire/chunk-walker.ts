/**
 * Walks the chunks of a `transfer-encoding: chunked` body without copying it: says where the payload lies in each buffer,
 * which bytes may be passed on with their framing, and where the body ends.
 *
 * The last chunk (`0`) and everything behind it is never part of what may be passed on: the sender to the client ends its
 * own body. For that a size line that a read cut in two is held back until the rest of it is there.
 */
import { WarmrouteError } from '../../core/protocol/index.js'

const lf = 0x0a
const cr = 0x0d

/** A size line with its extensions. */
const lineBytesMax = 1024
const trailerBytesMax = 16 * 1024

type State = 'size' | 'data' | 'data-cr' | 'data-lf' | 'trailer' | 'done'

export class ChunkWalker {
  /** Set by `push`: the buffer that was walked (held bytes in front), and the part of it that may be passed on framed. */
  buffer: Buffer = empty
  rawEnd = 0
  /** Pairs of start and end of the payload in `buffer`. Reused by every `push`. */
  readonly ranges: number[] = []
  /** Where the bytes behind the body begin in `buffer`, once it ended. */
  restStart = 0
  #state: State = 'size'
  #left = 0
  #trailerBytes = 0
  #held: Buffer | undefined

  get isDone(): boolean {
    return this.#state === 'done'
  }

  /** True: what was passed on so far ends with a whole chunk, so that one of our own may follow. */
  get isBetweenChunks(): boolean {
    return this.#state === 'size' || this.#state === 'done' || this.#state === 'trailer'
  }

  /** Throws `WR_ENGINE_PROTOCOL` for anything that is not exactly a chunked body. */
  push(bytes: Buffer): void {
    const buffer = this.#held ? Buffer.concat([this.#held, bytes]) : bytes
    this.#held = undefined
    this.buffer = buffer
    this.ranges.length = 0
    let at = 0
    let rawEnd = -1
    while (at < buffer.length && this.#state !== 'done') {
      switch (this.#state) {
        case 'size': {
          const end = buffer.indexOf(lf, at)
          if (end < 0) {
            if (buffer.length - at > lineBytesMax) throw refused('a chunk size line is too long')
            this.#held = buffer.subarray(at)
            this.rawEnd = rawEnd < 0 ? at : rawEnd
            return
          }
          this.#left = readSize(buffer, at, end)
          if (this.#left === 0) {
            rawEnd = at
            this.#state = 'trailer'
          } else this.#state = 'data'
          at = end + 1
          break
        }
        case 'data': {
          const end = Math.min(buffer.length, at + this.#left)
          this.ranges.push(at, end)
          this.#left -= end - at
          at = end
          if (this.#left === 0) this.#state = 'data-cr'
          break
        }
        case 'data-cr':
          if (buffer[at++] !== cr) throw refused('a chunk is longer than its size')
          this.#state = 'data-lf'
          break
        case 'data-lf':
          if (buffer[at++] !== lf) throw refused('a chunk is longer than its size')
          this.#state = 'size'
          break
        case 'trailer': {
          if (rawEnd < 0) rawEnd = 0
          const end = buffer.indexOf(lf, at)
          if (end < 0) {
            this.#trailerBytes += buffer.length - at
            if (this.#trailerBytes > trailerBytesMax) throw refused('the trailers are too long')
            this.#held = buffer.subarray(at)
            this.rawEnd = rawEnd
            return
          }
          if (buffer[end - 1] !== cr || end === at) throw refused('a trailer does not end with CRLF')
          this.#trailerBytes += end - at
          if (this.#trailerBytes > trailerBytesMax) throw refused('the trailers are too long')
          if (end === at + 1) this.#state = 'done'
          at = end + 1
          break
        }
      }
    }
    this.rawEnd = rawEnd < 0 ? at : rawEnd
    this.restStart = at
  }
}

const empty = Buffer.alloc(0)

/** Digits, then perhaps extensions, then CR; `end` is where the LF stands. */
function readSize(buffer: Buffer, start: number, end: number): number {
  if (end - start > lineBytesMax) throw refused('a chunk size line is too long')
  if (end === start || buffer[end - 1] !== cr) throw refused('a chunk size does not end with CRLF')
  let size = 0
  let at = start
  for (; at < end - 1; at++) {
    const digit = hexValue(buffer[at]!)
    if (digit < 0) break
    size = size * 16 + digit
    if (at - start >= 8) throw refused('a chunk is too large')
  }
  if (at === start) throw refused('a chunk has no size')
  if (at < end - 1) checkExtension(buffer, at, end - 1)
  return size
}

/** Extensions are passed on with the framing, so only what every client can read gets through: no space, no odd byte. */
const extensionPattern =
  /^(?:;[!#$%&'*+\-.^_`|~0-9A-Za-z]+(?:=(?:[!#$%&'*+\-.^_`|~0-9A-Za-z]+|"(?:[\x20\x21\x23-\x5b\x5d-\x7e])*"))?)+$/

function checkExtension(buffer: Buffer, start: number, end: number): void {
  if (buffer[start] !== 0x3b) throw refused('a chunk size is no number')
  if (!extensionPattern.test(buffer.toString('latin1', start, end))) throw refused('a chunk extension is malformed')
}

function hexValue(byte: number): number {
  if (byte >= 0x30 && byte <= 0x39) return byte - 0x30
  const letter = byte | 0x20
  return letter >= 0x61 && letter <= 0x66 ? letter - 0x57 : -1
}

function refused(reason: string): WarmrouteError {
  return new WarmrouteError('WR_ENGINE_PROTOCOL', { reason })
}
