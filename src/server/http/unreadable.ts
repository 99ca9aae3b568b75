/**
 * What is said to a client whose bytes Node cannot read as a request, and how its connection ends. There is no request yet, or its
 * body broke off in the middle, so the answer is written to the socket itself: of what was sent, nothing is repeated in it.
 */
import { STATUS_CODES } from 'node:http'
import type { Duplex } from 'node:stream'
import { WarmrouteError } from '../../core/protocol/index.js'
import type { Metrics } from '../../telemetry/index.js'
import type { Callers } from './callers.js'
import type { ErrorShape } from './error-body.js'
import { errorAnswer } from './error-body.js'

export interface UnreadableOptions {
  readonly callers: Callers
  readonly shape: ErrorShape
  readonly overloadStatus: number
  readonly counted: Metrics['unreadableRequests']
}

/** What Node says of it. */
export interface ParserError extends Error {
  readonly code?: string
  /** llhttp's own sentence. */
  readonly reason?: string
  /** The bytes among which it found the fault. */
  readonly rawPacket?: Buffer
}

/** How long a client may go on sending after it was answered: closed at once, the answer could be lost in a reset. */
const lingerMsMax = 1_000

/** Once per connection; may be called again for what such a client still sends. */
export function refuseUnreadable(error: ParserError, socket: Duplex, options: UnreadableOptions): void {
  const refused = refusalOf(error)
  if (refused && socket.writable) refuse(refused, socket, options, namesMessages(error.rawPacket))
  else if (!socket.writableEnded) socket.destroy() // a connection that broke, or a handshake that failed
}

/** The method by which a client asks for a tunnel: Node takes its hands off the connection. */
export function refuseTunnel(socket: Duplex, options: UnreadableOptions): void {
  refuse(new WarmrouteError('WR_METHOD_NOT_ALLOWED', {}), socket, options, false)
}

function refuse(refused: WarmrouteError, socket: Duplex, options: UnreadableOptions, isForMessages: boolean): void {
  const { callers, shape, overloadStatus, counted } = options
  counted.inc({ code: refused.code })
  const asked = callers.of(socket)
  // What is under way there has begun to answer: whatever is written now would be taken for a part of that.
  if (asked.some(({ hasBegun }) => hasBegun)) return void socket.destroy()
  const own = asked.at(-1)?.shape ?? (isForMessages ? 'anthropic' : shape)
  const { status, body } = errorAnswer(refused, own, overloadStatus)
  const head = `HTTP/1.1 ${status} ${STATUS_CODES[status]}\r\ncontent-type: application/json\r\ncontent-length: ${Buffer.byteLength(body)}\r\nconnection: close\r\n\r\n`
  const timer = setTimeout(() => socket.destroy(), lingerMsMax).unref()
  socket.once('close', () => clearTimeout(timer))
  socket.on('error', () => {}) // it is gone already: nobody else has to know
  socket.end(head + body)
}

function refusalOf({ code, reason }: ParserError): WarmrouteError | undefined {
  if (code === 'HPE_HEADER_OVERFLOW') return new WarmrouteError('WR_HEADERS_TOO_LARGE', {})
  if (code === 'HPE_CHUNK_EXTENSIONS_OVERFLOW')
    return new WarmrouteError('WR_BODY_TOO_LARGE', { message: 'The chunk extensions of the body are too long' })
  if (code === 'ERR_HTTP_REQUEST_TIMEOUT') return new WarmrouteError('WR_HEADERS_TIMEOUT', {})
  if (code?.startsWith('HPE_') !== true) return undefined
  return new WarmrouteError('WR_INVALID_HTTP', { message: `This cannot be read as HTTP/1.1: ${reason ?? code}` })
}

/** Where the fault is among the first bytes, the path is known. */
function namesMessages(packet: Buffer | undefined): boolean {
  return /^[A-Z]+ \/v1\/messages[ /?]/.test(packet?.toString('latin1', 0, 64) ?? '')
}
