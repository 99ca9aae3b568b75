/**
 * One HTTP/1.1 connection to an engine, one request at a time. Hands the bytes of the answer on as they come, with the
 * places of the payload in them; nothing is copied or put together. Follows the measurements of notes in
 * docs/performance/gateway.md: a stock client costs about as much per chunk as everything else together.
 *
 * It is for engines only: no redirects, no upgrades, no compression, no pipelining.
 */
import type { Socket } from 'node:net'
import { WarmrouteError } from '../../core/protocol/index.js'
import { ownTurn } from '../steps.js'
import { ChunkWalker } from './chunk-walker.js'
import type { ResponseHead } from './response-head.js'
import { headBytesMax, readResponseHead } from './response-head.js'

export interface EngineRequest {
  readonly method: string
  /** Path and query, as on the request line. */
  readonly path: string
  /** Lines without `host`, `content-length` and `connection`; values were checked by whoever took them from a client. */
  readonly headers: readonly (readonly [name: string, value: string])[]
  /** Several pieces are sent as one body. */
  readonly body?: Uint8Array | readonly Uint8Array[] | undefined
  /** Set: it is sent once, and not at all when this says no as soon as a connection is there. */
  readonly mayStillSend?: (() => boolean) | undefined
}

/** Every callback runs in the turn of the loop in which the bytes arrived. After `onEnd` or `onError` none comes any more. */
export interface AnswerHandlers {
  /** The request went to a connected socket; again where a dead connection was replaced. */
  onSent?(): void
  onHead(head: ResponseHead): void
  /**
   * A piece of the body. `ranges` holds start and end of each run of payload in `buffer` and is reused; `rawEnd` ends the
   * part that may be passed on with its chunk framing, where there is one. `isLast`: `onEnd` follows in this turn.
   */
  onData(buffer: Buffer, ranges: readonly number[], rawEnd: number, isLast: boolean): void
  onEnd(): void
  /** `isUntouched`: the connection ended before the first byte of an answer. */
  onError(error: WarmrouteError, isUntouched: boolean): void
}

export interface ConnectionOwner {
  /** The connection can take another request. */
  onIdle(connection: EngineConnection): void
  onGone(connection: EngineConnection): void
}

type State = 'idle' | 'head' | 'body' | 'gone'

const noRanges: readonly number[] = []
const emptyLine = Buffer.from('\r\n\r\n')

export class EngineConnection {
  readonly socket: Socket
  readonly #owner: ConnectionOwner
  readonly #host: string
  #state: State = 'idle'
  #handlers: AnswerHandlers | undefined
  #method = 'GET'
  #head: ResponseHead | undefined
  #headBytes: Buffer | undefined
  #walker: ChunkWalker | undefined
  #left = 0
  /** Of a long request, what no socket has been given yet. */
  #unsentBytes = 0
  #ranges: number[] = [0, 0]
  /** When it became idle, and how many requests it served. */
  idleSinceMs = 0
  served = 0

  constructor(socket: Socket, host: string, owner: ConnectionOwner) {
    this.socket = socket
    this.#host = host
    this.#owner = owner
    socket.setNoDelay(true)
    socket.on('data', (bytes: Buffer) => this.#read(bytes))
    socket.on('end', () => this.#ended())
    socket.on('error', (error) => this.#lost(error))
    socket.on('close', () => this.#lost(undefined))
  }

  /** Every byte of the request has left this process. */
  get isSent(): boolean {
    return this.#unsentBytes === 0 && this.socket.writableLength === 0
  }

  get isIdle(): boolean {
    return this.#state === 'idle'
  }

  /** True between two chunks of the answer, where one of our own may be put in. */
  get isBetweenChunks(): boolean {
    return this.#walker?.isBetweenChunks ?? false
  }

  send(request: EngineRequest, handlers: AnswerHandlers): void {
    this.#state = 'head'
    this.#handlers = handlers
    this.#method = request.method
    const { socket } = this
    const pieces = piecesOf(request.body)
    const size = bytesIn(pieces)
    const head = headOf(request, this.#host, request.body === undefined ? undefined : size)
    if (size === 0) socket.write(head, 'latin1')
    else if (size < joinedBytesMax) socket.write(joined(head, pieces, size))
    else if (size > longBytesMin) {
      socket.write(head, 'latin1')
      this.#unsentBytes = size
      void this.#sendSlices(pieces)
    } else {
      socket.cork()
      socket.write(head, 'latin1')
      for (const piece of pieces) socket.write(piece)
      socket.uncork()
    }
  }

  /** The system takes many megabytes at once, and copies them while the loop stands still. */
  async #sendSlices(pieces: readonly Uint8Array[]): Promise<void> {
    const { socket } = this
    for (const piece of pieces)
      for (let at = 0; at < piece.length; at += sliceBytes) {
        const slice = piece.subarray(at, at + sliceBytes)
        const error = await new Promise((written) => socket.write(slice, written))
        if (error) return // it broke or was given up: nothing of this body is looked at any more
        this.#unsentBytes -= slice.length
        await ownTurn()
      }
  }

  /** The request is given up: the engine sees the connection close and stops generating. */
  abort(): void {
    this.#handlers = undefined
    this.destroy()
  }

  /** A request that is under way fails. */
  destroy(): void {
    if (this.#state === 'gone') return
    this.#state = 'gone'
    this.socket.destroy()
    this.#owner.onGone(this)
    const handlers = this.#handlers
    this.#handlers = undefined
    handlers?.onError(new WarmrouteError('WR_ENGINE_DISCONNECTED', { reason: 'the worker left' }), false)
  }

  #read(bytes: Buffer): void {
    try {
      if (this.#state === 'head') this.#readHead(bytes)
      else if (this.#state === 'body') this.#readBody(bytes)
      else if (this.#state === 'idle') this.destroy() // nobody asked: what follows would be taken for the next answer
    } catch (error) {
      if (!(error instanceof WarmrouteError)) throw error
      this.#fail(error, false)
    }
  }

  #readHead(bytes: Buffer): void {
    const buffer = this.#headBytes ? Buffer.concat([this.#headBytes, bytes]) : bytes
    const end = buffer.indexOf(emptyLine)
    if (end < 0 ? buffer.length > headBytesMax : end > headBytesMax)
      throw new WarmrouteError('WR_ENGINE_PROTOCOL', { reason: 'the head is too long' })
    if (end < 0) {
      this.#headBytes = buffer
      return
    }
    this.#headBytes = undefined
    const head = readResponseHead(buffer.toString('latin1', 0, end), this.#method)
    const rest = buffer.subarray(end + 4)
    if (head.status < 200) {
      if (head.status === 101)
        throw new WarmrouteError('WR_ENGINE_PROTOCOL', { reason: 'an upgrade was not asked for' })
      if (rest.length > 0) this.#readHead(rest) // an interim answer; the real one follows
      return
    }
    this.#head = head
    this.#state = 'body'
    this.#left = head.framing.kind === 'length' ? head.framing.bytes : 0
    this.#walker = head.framing.kind === 'chunked' ? new ChunkWalker() : undefined
    this.#handlers?.onHead(head)
    if (this.#state !== 'body') return // the handler gave up
    if (head.framing.kind === 'none' || (head.framing.kind === 'length' && head.framing.bytes === 0))
      this.#finish(rest.length > 0)
    else if (rest.length > 0) this.#readBody(rest)
  }

  #readBody(bytes: Buffer): void {
    const { kind } = this.#head!.framing
    if (kind === 'chunked') {
      const walker = this.#walker!
      walker.push(bytes)
      if (walker.rawEnd > 0 || walker.ranges.length > 0)
        this.#handlers?.onData(walker.buffer, walker.ranges, walker.rawEnd, walker.isDone)
      if (walker.isDone && this.#state === 'body') this.#finish(walker.restStart < walker.buffer.length)
      return
    }
    const take = kind === 'length' ? Math.min(this.#left, bytes.length) : bytes.length
    this.#left -= take
    this.#ranges[1] = take
    const isLast = kind === 'length' && this.#left === 0
    this.#handlers?.onData(bytes, take > 0 ? this.#ranges : noRanges, take, isLast)
    if (isLast && this.#state === 'body') this.#finish(take < bytes.length)
  }

  /**
   * The answer is whole. Bytes behind it mean that the two sides disagree, and the connection is not used again; nor is
   * one whose engine answered before it took in the request, since it may never read the rest.
   */
  #finish(hasRest: boolean): void {
    const handlers = this.#handlers
    const isReusable = this.#head!.isReusable && !hasRest && this.isSent
    this.#handlers = undefined
    this.#head = undefined
    this.#walker = undefined
    this.served++
    if (isReusable) {
      this.#state = 'idle'
      this.#owner.onIdle(this)
    } else this.destroy()
    handlers?.onEnd()
  }

  #ended(): void {
    if (this.#state === 'body' && this.#head!.framing.kind === 'until-close') this.#finish(false)
    else this.#lost(undefined)
  }

  #lost(cause: Error | undefined): void {
    if (this.#state === 'gone') return
    if (this.#state === 'idle') {
      this.destroy()
      return
    }
    const isUntouched = this.#state === 'head' && this.#headBytes === undefined
    const reason = cause?.message ?? 'the connection closed before the answer ended'
    this.#fail(new WarmrouteError('WR_ENGINE_DISCONNECTED', { reason }, { cause }), isUntouched)
  }

  #fail(error: WarmrouteError, isUntouched: boolean): void {
    const handlers = this.#handlers
    this.#handlers = undefined
    this.destroy()
    handlers?.onError(error, isUntouched)
  }
}

/** Up to here one write of a copy is cheaper than several. */
const joinedBytesMax = 16_384
/** From here on slices are sent, one in a turn of the loop. */
const longBytesMin = 1024 * 1024
const sliceBytes = 512 * 1024

function piecesOf(body: EngineRequest['body']): readonly Uint8Array[] {
  if (body === undefined) return []
  return body instanceof Uint8Array ? [body] : body
}

function bytesIn(pieces: readonly Uint8Array[]): number {
  let size = 0
  for (const piece of pieces) size += piece.length
  return size
}

function joined(head: string, pieces: readonly Uint8Array[], size: number): Buffer {
  const bytes = Buffer.allocUnsafe(head.length + size)
  let at = bytes.write(head, 0, 'latin1')
  for (const piece of pieces) {
    bytes.set(piece, at)
    at += piece.length
  }
  return bytes
}

function headOf(request: EngineRequest, host: string, bodyBytes: number | undefined): string {
  let head = `${request.method} ${request.path} HTTP/1.1\r\nhost: ${host}\r\n`
  for (const [name, value] of request.headers) head += `${name}: ${value}\r\n`
  if (bodyBytes !== undefined) head += `content-length: ${bodyBytes}\r\n`
  return `${head}\r\n`
}
