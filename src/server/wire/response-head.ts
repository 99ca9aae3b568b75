/**
 * Reads the head of an HTTP/1.1 response, strictly: whatever two parsers could understand differently is refused, because
 * behind it the next answer on the same connection would be read from the wrong byte. Does no I/O.
 */
import { WarmrouteError } from '../../core/protocol/index.js'

/** How the end of the body is found. */
export type BodyFraming =
  | { readonly kind: 'none' }
  | { readonly kind: 'length'; readonly bytes: number }
  | { readonly kind: 'chunked' }
  | { readonly kind: 'until-close' }

export interface ResponseHead {
  readonly status: number
  /** Names in lower case, values trimmed, in the order of the wire. */
  readonly headers: readonly (readonly [name: string, value: string])[]
  readonly framing: BodyFraming
  /** False: the other side will close, or its framing leaves the end of the body open. */
  readonly isReusable: boolean
}

/** Larger heads are refused. Engines send a few hundred bytes. */
export const headBytesMax = 64 * 1024

const statusLine = /^HTTP\/1\.([01]) ([1-9][0-9]{2})(?: [\t\x20-\x7e\x80-\xff]*)?$/
const headerLine = /^([!#$%&'*+\-.^_`|~0-9A-Za-z]+):[ \t]*([\t\x20-\x7e\x80-\xff]*)$/

let lastText = ''
let lastMethod = ''
let lastHead: ResponseHead | undefined

/** As `parseResponseHead`. Engines say the same to everybody within a second, and then it is parsed once and held once. */
export function readResponseHead(text: string, method: string): ResponseHead {
  if (lastHead && text === lastText && method === lastMethod) return lastHead
  const head = parseResponseHead(text, method)
  if (text.length <= rememberedBytesMax) {
    lastText = text
    lastMethod = method
    lastHead = head
  }
  return head
}

/** A longer one is an odd one. */
const rememberedBytesMax = 1024

/** `text` is the head as latin1, without the empty line that ends it. Throws `WR_ENGINE_PROTOCOL`. */
export function parseResponseHead(text: string, method: string): ResponseHead {
  const lines = text.split('\r\n')
  const first = statusLine.exec(lines[0]!)
  if (!first) throw refused('the status line is not HTTP/1.1')
  const status = Number(first[2])
  const headers: (readonly [string, string])[] = []
  let lengthText: string | undefined
  let transfer: string | undefined
  let connection = ''
  for (let at = 1; at < lines.length; at++) {
    const match = headerLine.exec(lines[at]!)
    if (!match) throw refused('a header line is malformed')
    const name = match[1]!.toLowerCase()
    const value = match[2]!.trimEnd()
    headers.push([name, value])
    if (name === 'content-length') {
      if (lengthText !== undefined && lengthText !== value) throw refused('two lengths are given')
      lengthText = value
    } else if (name === 'transfer-encoding') transfer = transfer === undefined ? value : `${transfer},${value}`
    else if (name === 'connection') connection += `,${value.toLowerCase()}`
  }
  const framing = framingOf(status, method, lengthText, transfer)
  const words = connection.split(',').map((word) => word.trim())
  const isKept = first[1] === '1' ? !words.includes('close') : words.includes('keep-alive')
  return { status, headers, framing, isReusable: isKept && framing.kind !== 'until-close' }
}

function framingOf(
  status: number,
  method: string,
  lengthText: string | undefined,
  transfer: string | undefined,
): BodyFraming {
  if (lengthText !== undefined && transfer !== undefined) throw refused('both a length and an encoding are given')
  if (status < 200 || status === 204 || status === 304 || method === 'HEAD') return { kind: 'none' }
  if (transfer !== undefined) {
    if (transfer.toLowerCase() !== 'chunked') throw refused('the transfer encoding is not chunked')
    return { kind: 'chunked' }
  }
  if (lengthText === undefined) return { kind: 'until-close' }
  if (!/^[0-9]{1,15}$/.test(lengthText)) throw refused('the length is no number')
  return { kind: 'length', bytes: Number(lengthText) }
}

function refused(reason: string): WarmrouteError {
  return new WarmrouteError('WR_ENGINE_PROTOCOL', { reason })
}
