/**
 * Carries one engine's answer to one client. Until the first byte of a body nothing is sent but comments behind a head of
 * our own, so that a worker which fails before can still be replaced; from then on the answer is this worker's.
 *
 * Three ways, cheapest first:
 *   framed  the engine's chunks go to the client's socket as they came, framing included (HTTP/1.1, `chunked`); where events
 *           are edited, what came at once as one chunk of ours
 *   whole   a short answer of known length is sent in one write
 *   plain   payload through `response.write`: everything else
 */
import type { ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import type { WarmrouteError } from '../../core/protocol/index.js'
import type { Endpoint } from '../request/endpoints.js'
import type { AnswerHandlers } from '../wire/engine-connection.js'
import type { EngineCall } from '../wire/engine-link.js'
import type { ResponseHead } from '../wire/response-head.js'
import {
  agreesWithEarlyHead,
  comment,
  commentWhileWaiting,
  earlyHead,
  isEventStream,
  lateHeaders,
} from './early-head.js'
import type { EventEdit } from './event-editor.js'
import { EventEditor } from './event-editor.js'
import { ResponseIdReader } from './response-id.js'
import { StreamWatch } from './stream-watch.js'
import { endsUnstarted, isCutShort } from './cut-short.js'
import type { Usage } from './usage.js'
import { readUsage } from './usage.js'

export type BodyEdit = (body: Buffer) => Buffer

export interface RelayRequest {
  readonly response: ServerResponse
  readonly requestId: string
  readonly endpoint: Endpoint
  /** Lines of our own for the client. */
  readonly headers: readonly (readonly [name: string, value: string])[]
  /** Set for streams in which something is changed. */
  readonly editEvent?: EventEdit | undefined
  /** An answer is edited in one piece; one that is longer passes as it is. */
  readonly editedBytesMax: number
  /** What is changed in a whole answer of this status; undefined: nothing. */
  readonly bodyEdit?: ((status: number) => BodyEdit | undefined) | undefined
  /** The client asked for a stream: comments may be sent even before the engine's head. */
  readonly wantsStream: boolean
  /** True: this status is not for the client, who gets another worker or an error of ours. Called before anything is sent. */
  readonly isWithheld: (status: number) => boolean
  /** Somebody else could take the request now. Asked when the engine ended it and nothing of it was sent. */
  readonly canMove: () => boolean
}

export interface RelayHooks {
  /** The request went to the worker. */
  onSent(): void
  /** The worker answered; what it has to say is yet to come. */
  onHead(): void
  /** Something of the answer arrived, with so many new tokens in it. */
  onProgress(tokens: number): void
  /** The first byte is on its way to the client: no other worker can be asked any more. */
  onCommit?(): void
  /** The answer was too long to be edited and passes as it is. */
  onUnedited?(): void
  /** Set where somebody wants to know by which id the engine calls its answer. */
  readonly onResponseId?: ((id: string) => void) | undefined
  /** Exactly once. */
  onOutcome(outcome: RelayOutcome): void
}

export type RelayOutcome =
  | {
      readonly kind: 'completed'
      readonly status: number
      readonly usage: Usage | undefined
      readonly hasError: boolean
    }
  /** The worker refused and nothing of its own was sent. */
  | { readonly kind: 'refused'; readonly status: number }
  /** The connection or the framing failed; `isCommitted`: the client has seen a part. */
  | {
      readonly kind: 'failed'
      readonly error: WarmrouteError
      readonly isCommitted: boolean
      readonly isUntouched: boolean
    }

type Way = 'framed' | 'whole' | 'plain'

/** Hop-by-hop, or ours to set. */
const notPassedOn = new Set([
  'connection',
  'content-length',
  'keep-alive',
  'proxy-authenticate',
  'proxy-connection',
  'trailer',
  'transfer-encoding',
  'upgrade',
  'x-request-id',
])

const wholeBytesMax = 256 * 1024
const tailBytes = 8 * 1024
const keepAliveChunk = '3\r\n:\n\n\r\n'

export class AnswerRelay implements AnswerHandlers {
  readonly #request: RelayRequest
  readonly #hooks: RelayHooks
  readonly #parts: Buffer[] = []
  #call: EngineCall | undefined
  #head: ResponseHead | undefined
  #way: Way = 'plain'
  #watch: StreamWatch | undefined
  #idReader: ResponseIdReader | undefined
  #editor: EventEditor | undefined
  #editBody: BodyEdit | undefined
  #partsBytes = 0
  #tail: Buffer | undefined
  #isOver = false
  /** The client has a head of ours and comments, which name no worker. */
  #isOpened: boolean
  isCommitted = false
  /** The engine is held back because the client does not read. */
  isHeldUp = false

  constructor(request: RelayRequest, hooks: RelayHooks) {
    this.#request = request
    this.#hooks = hooks
    this.#isOpened = request.response.headersSent
    if (this.#isOpened) this.#begin(earlyHead)
  }

  /** The call that this relay handles, for back-pressure and abort. */
  attach(call: EngineCall): void {
    this.#call = call
  }

  /** What the client has ends with a whole chunk: with the engine's own framing that is the engine's to say. */
  get #isBetweenChunks(): boolean {
    return this.#editor !== undefined || (this.#call?.isBetweenChunks ?? false)
  }

  get isStream(): boolean {
    return this.#watch !== undefined
  }

  /** The engine has been sent everything. */
  get isSent(): boolean {
    return this.#call?.isSent ?? false
  }

  onSent(): void {
    if (!this.#isOver) this.#hooks.onSent()
  }

  onHead(head: ResponseHead): void {
    this.#hooks.onHead()
    if (this.#isOver) return
    if (this.#request.isWithheld(head.status) || (this.#isOpened && !agreesWithEarlyHead(head))) {
      this.#call?.abort()
      this.#finish({ kind: 'refused', status: head.status })
    } else if (!this.#isOpened) this.#begin(head)
  }

  #begin(head: ResponseHead): void {
    this.#head = head
    const { onResponseId } = this.#hooks
    if (onResponseId && head.status === 200) this.#idReader = new ResponseIdReader(onResponseId)
    if (head.status === 200 && isEventStream(head.headers)) {
      this.#watch = new StreamWatch(this.#request.endpoint)
      if (this.#request.editEvent) this.#editor = new EventEditor(this.#request.editEvent)
    } else this.#editBody = this.#request.bodyEdit?.(head.status)
    this.#way = this.#chooseWay(head)
    if (this.#editBody && this.#way !== 'whole') this.#passUnedited()
  }

  onData(buffer: Buffer, ranges: readonly number[], rawEnd: number, isLast: boolean): void {
    if (this.#isOver) return
    this.#look(buffer, ranges)
    if (this.#isOver) return
    if (this.#way === 'whole') {
      for (let at = 0; at < ranges.length; at += 2) this.#keepPart(buffer.subarray(ranges[at], ranges[at + 1]))
      if (this.#editBody && this.#partsBytes > this.#request.editedBytesMax) this.#passUnedited()
      return
    }
    if (this.#way === 'framed') {
      const raw = rawEnd === buffer.length ? buffer : buffer.subarray(0, rawEnd)
      if (isLast) this.#request.response.socket?.cork() // until `onEnd`: the last events and the end leave in one write
      this.#sendFramed(this.#editor ? edited(this.#editor, buffer, ranges) : raw)
    } else for (let at = 0; at < ranges.length; at += 2) this.#sendPlain(buffer.subarray(ranges[at], ranges[at + 1]))
  }

  onEnd(): void {
    if (this.#isOver) return
    const { response } = this.#request
    if (this.#way === 'whole') {
      const body = this.#parts.length === 1 ? this.#parts[0]! : Buffer.concat(this.#parts)
      if (isCutShort(this.#head!.status, body) && this.#request.canMove())
        return this.#finish({ kind: 'refused', status: 503 })
      this.#sendWhole(body)
    } else {
      this.#commit()
      const rest = this.#editor?.rest()
      const { socket } = response
      if (rest) response.write(rest)
      response.end()
      socket?.uncork()
    }
    const usage = this.#watch ? this.#watch.usage : this.#tail && readUsage(this.#tail.toString('latin1'))
    const hasError = this.#watch?.hasError ?? this.#head!.status >= 400
    this.#finish({ kind: 'completed', status: this.#head!.status, usage, hasError })
  }

  onError(error: WarmrouteError, isUntouched: boolean): void {
    this.#finish({ kind: 'failed', error, isCommitted: this.isCommitted, isUntouched })
  }

  /** Given up by us: the client left, or a deadline passed. The engine's connection is closed in this turn. */
  abort(error: WarmrouteError): void {
    if (this.#isOver) return
    this.#call?.abort()
    this.#finish({ kind: 'failed', error, isCommitted: this.isCommitted, isUntouched: false })
  }

  /** A comment on a silent stream, where one fits. Before the first byte of the answer it stands behind a head of our own. */
  keepAlive(): void {
    const { response } = this.#request
    if (this.#isOver) return
    if (!this.isCommitted) return this.#keepOpen()
    if (!this.#watch?.isBetweenEvents) return
    if (this.#way === 'plain') response.write(comment)
    else if (this.#isBetweenChunks) response.socket?.write(keepAliveChunk, 'latin1')
  }

  /** After a failure in the middle of a stream: says so in the stream and ends it, or cuts the connection where it cannot. */
  endWithFrames(frames: string): void {
    const { response } = this.#request
    const canSpeak = !this.isHeldUp && this.#watch !== undefined && (this.#way !== 'framed' || this.#isBetweenChunks)
    if (!canSpeak || !response.socket) {
      response.destroy()
      return
    }
    const held = this.#editor?.rest()
    if (held) response.write(held)
    const text = this.#watch!.isBetweenEvents ? frames : `\n\n${frames}`
    if (this.#way === 'framed') {
      const size = Buffer.byteLength(text).toString(16)
      response.socket.write(`${size}\r\n${text}\r\n`)
      response.end()
    } else response.end(text)
  }

  /** Comments are no answer: another worker may still give it. The engine's own head, where it came already, is left out. */
  #keepOpen(): void {
    const { response, requestId, wantsStream } = this.#request
    if (this.#head ? !this.#watch : !wantsStream) return
    if (!this.#isOpened) this.#begin(earlyHead)
    this.#isOpened = true
    commentWhileWaiting(response, requestId)
  }

  #chooseWay(head: ResponseHead): Way {
    const { response } = this.#request
    const knownBytes = head.framing.kind === 'length' ? head.framing.bytes : undefined
    if (!this.#watch && !this.#editBody && knownBytes !== undefined && knownBytes <= wholeBytesMax) return 'whole'
    if (this.#editBody && (knownBytes ?? 0) <= this.#request.editedBytesMax) return 'whole'
    const canFrame = head.framing.kind === 'chunked' && response.req.httpVersionMinor === 1 && response.socket !== null
    return canFrame ? 'framed' : 'plain'
  }

  #look(buffer: Buffer, ranges: readonly number[]): void {
    let tokens = 0
    for (let at = 0; at < ranges.length; at += 2) {
      const start = ranges[at]!
      const end = ranges[at + 1]!
      if (this.#idReader) this.#readId(this.#idReader, buffer, start, end)
      if (this.#watch) tokens += this.#watch.push(buffer, start, end)
      else this.#keepTail(buffer, start, end)
    }
    if (!this.isCommitted && this.#watch?.hasError && this.#request.isWithheld(500)) {
      this.#call?.abort() // an error in place of the first token, behind a head that said 200
      this.#finish({ kind: 'refused', status: 500 })
      return
    }
    if (
      !this.isCommitted &&
      this.#watch &&
      tokens === 0 &&
      endsUnstarted(this.#head!.status, buffer.subarray(ranges[0], ranges.at(-1))) &&
      this.#request.canMove()
    ) {
      this.#call?.abort()
      this.#finish({ kind: 'refused', status: 503 })
      return
    }
    this.#hooks.onProgress(tokens)
  }

  #readId(reader: ResponseIdReader, buffer: Buffer, start: number, end: number): void {
    reader.push(buffer, start, end)
    if (reader.isDone) this.#idReader = undefined
  }

  /** Usage stands at the end of a whole answer, or at its very front in some engines: a short answer is kept in full. */
  #keepTail(buffer: Buffer, start: number, end: number): void {
    const part = buffer.subarray(start, end)
    const tail = this.#tail ? Buffer.concat([this.#tail, part]) : part
    this.#tail = tail.length > 2 * tailBytes ? Buffer.from(tail.subarray(tail.length - tailBytes)) : tail
  }

  #commit(length?: number): void {
    if (this.isCommitted) return
    this.isCommitted = true
    this.#hooks.onCommit?.()
    const { response, headers } = this.#request
    if (this.#isOpened) {
      const late = lateHeaders(headers)
      if (late) response.write(late)
      return
    }
    const head = this.#head!
    const lines: string[] = []
    for (const [name, value] of head.headers) if (!notPassedOn.has(name)) lines.push(name, value)
    for (const [name, value] of headers) lines.push(name, value)
    if (length !== undefined) lines.push('content-length', String(length))
    else if (this.#way === 'framed') lines.push('transfer-encoding', 'chunked')
    else if (head.framing.kind === 'length' && !this.#editor) lines.push('content-length', String(head.framing.bytes))
    response.writeHead(head.status, lines)
  }

  #sendFramed(raw: Buffer): void {
    const { response } = this.#request
    const socket = response.socket
    if (!socket) return
    if (this.isCommitted) {
      if (raw.length > 0 && !socket.write(raw)) this.#holdUntilDrained(socket)
      return
    }
    socket.cork()
    this.#commit()
    response.flushHeaders()
    const hasRoom = raw.length === 0 || socket.write(raw)
    socket.uncork()
    if (!hasRoom) this.#holdUntilDrained(socket)
  }

  #sendPlain(payload: Buffer): void {
    const { response } = this.#request
    const bytes = this.#editor ? this.#editor.push(payload) : payload
    this.#commit()
    if (bytes && !response.write(bytes)) this.#holdUntilDrained(response)
  }

  #keepPart(part: Buffer): void {
    this.#parts.push(part)
    this.#partsBytes += part.length
  }

  /** Too long to be held: what is here goes now, the rest as it comes. */
  #passUnedited(): void {
    this.#editBody = undefined
    this.#hooks.onUnedited?.()
    if (this.#way !== 'whole') return
    this.#way = 'plain'
    for (const part of this.#parts.splice(0)) this.#sendPlain(part)
  }

  #sendWhole(body: Buffer): void {
    const { response } = this.#request
    const sent = this.#editBody ? this.#editBody(body) : body
    this.#commit(sent.length)
    response.end(sent)
  }

  #holdUntilDrained(stream: ServerResponse | Socket): void {
    const call = this.#call
    if (!call || this.isHeldUp) return
    this.isHeldUp = true
    call.pause()
    stream.once('drain', () => {
      this.isHeldUp = false
      call.resume()
    })
  }

  #finish(outcome: RelayOutcome): void {
    if (this.#isOver) return
    this.#isOver = true
    this.#hooks.onOutcome(outcome)
  }
}

/** What the editor lets through of the payload, as one chunk of ours; empty where it holds everything back. */
function edited(editor: EventEditor, buffer: Buffer, ranges: readonly number[]): Buffer {
  const parts: Buffer[] = []
  let bytes = 0
  for (let at = 0; at < ranges.length; at += 2) {
    const part = editor.push(buffer.subarray(ranges[at], ranges[at + 1]))
    if (!part) continue
    parts.push(part)
    bytes += part.length
  }
  // A chunk of no bytes would be the last one.
  return bytes === 0 ? nothing : Buffer.concat([Buffer.from(`${bytes.toString(16)}\r\n`), ...parts, lineEnd])
}

const nothing = Buffer.alloc(0)
const lineEnd = Buffer.from('\r\n')
