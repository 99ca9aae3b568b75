/**
 * The way to one engine: its address, its key, and a pool of connections. A call is one request and its answer, told to
 * handlers; giving it up closes the connection, which is how an engine learns to stop.
 */
import { isIP } from 'node:net'
import type { Socket } from 'node:net'
import { connect as connectTls } from 'node:tls'
import { WarmrouteError } from '../../core/protocol/index.js'
import type { AnswerHandlers, ConnectionOwner, EngineRequest } from './engine-connection.js'
import { EngineConnection } from './engine-connection.js'
import { openEngineSocket } from './engine-socket.js'

export interface EngineLinkOptions {
  /** `http://host:port` or `https://…`; a path is put in front of every request path. */
  readonly url: string
  /** Sent as a bearer token; never shown. */
  readonly apiKey?: string | undefined
  readonly connectMs?: number
  /** Engines close idle connections after 5 s; one that is older than this is not used again. */
  readonly idleMs?: number
  readonly idleConnectionsMax?: number
  readonly now?: (() => number) | undefined
  /** Opens a connection to an `http` address; a socket of the system unless told. */
  readonly connect?: Connect | undefined
}

export type Connect = (address: { readonly host: string; readonly port: number }) => Socket

export interface EngineCall {
  abort(): void
  /** Back-pressure: no more bytes are read until `resume`. */
  pause(): void
  resume(): void
  readonly isBetweenChunks: boolean
  /** Every byte of the request has left this process: nobody reads its body any more. */
  readonly isSent: boolean
}

export class EngineLink implements ConnectionOwner {
  readonly #options: {
    readonly [Name in keyof Omit<EngineLinkOptions, 'apiKey'>]-?: NonNullable<EngineLinkOptions[Name]>
  }
  readonly #address: { readonly host: string; readonly port: number }
  /** As requests name it. */
  readonly #host: string
  readonly #isTls: boolean
  readonly #authorization: readonly [string, string] | undefined
  readonly #basePath: string
  readonly #idle: EngineConnection[] = []
  readonly #all = new Set<EngineConnection>()
  readonly #connecting = new Map<Socket, () => void>()
  #sweep: NodeJS.Timeout | undefined
  #isClosed = false

  constructor(options: EngineLinkOptions) {
    this.#options = {
      connectMs: 5_000,
      idleMs: 3_500,
      idleConnectionsMax: 512,
      ...options,
      now: options.now ?? (() => performance.now()),
      connect: options.connect ?? openEngineSocket,
    }
    if (options.apiKey !== undefined && !/^[\x20-\x7e]*$/.test(options.apiKey))
      throw new WarmrouteError('WR_INVALID_ARGUMENT', { reason: 'an API key with other than plain characters' })
    const { hostname, host, port, protocol, pathname } = new URL(options.url)
    this.#isTls = protocol === 'https:'
    this.#host = host
    this.#address = { host: hostname.replace(/^\[|\]$/g, ''), port: Number(port || (this.#isTls ? 443 : 80)) }
    this.#basePath = pathname.replace(/\/$/, '')
    this.#authorization = options.apiKey === undefined ? undefined : ['authorization', `Bearer ${options.apiKey}`]
  }

  /** Connections that are open or opening. */
  get connectionCount(): number {
    return this.#all.size + this.#connecting.size
  }

  get hasOwnKey(): boolean {
    return this.#authorization !== undefined
  }

  /**
   * Sends at once on an idle connection, else on a new one. A kept connection that turns out to be dead before any byte
   * came back is replaced once: engines drop idle connections without notice.
   */
  call(request: EngineRequest, handlers: AnswerHandlers): EngineCall {
    const { method, path, headers, body, mayStillSend } = request
    const full: EngineRequest = {
      method,
      path: this.#basePath + path,
      headers: this.#authorization ? [...headers, this.#authorization] : headers,
      body,
      mayStillSend,
    }
    const call = new Call(this, full, handlers)
    if (this.#isClosed) queueMicrotask(() => call.fail(closed()))
    else call.start()
    return call
  }

  takeIdle(): EngineConnection | undefined {
    const oldest = this.#options.now() - this.#options.idleMs
    for (let connection = this.#idle.pop(); connection; connection = this.#idle.pop()) {
      if (connection.isIdle && connection.idleSinceMs >= oldest && !connection.socket.destroyed) return connection
      connection.destroy()
    }
    return undefined
  }

  /** Calls back once: with a connection, or with the reason that there is none. The answer ends the attempt. */
  open(onOpen: (connection: EngineConnection) => void, onError: (error: WarmrouteError) => void): () => void {
    const address = this.#address
    const socket = this.#isTls
      ? connectTls({ ...address, servername: isIP(address.host) ? '' : address.host, ALPNProtocols: ['http/1.1'] })
      : this.#options.connect(address)
    const timer = setTimeout(() => socket.destroy(new Error('no connection in time')), this.#options.connectMs)
    let isSettled = false
    const settle = (): boolean => {
      if (isSettled) return false
      isSettled = true
      clearTimeout(timer)
      this.#connecting.delete(socket)
      return true
    }
    const failed = (cause?: Error): void => {
      if (settle()) onError(new WarmrouteError('WR_ENGINE_UNREACHABLE', { reason: reasonOf(cause) }, { cause }))
    }
    const closed = (): void => failed()
    this.#connecting.set(socket, failed)
    socket.on('error', failed)
    socket.on('close', closed)
    socket.once(this.#isTls ? 'secureConnect' : 'connect', () => {
      if (!settle()) return
      // Left on the socket they would keep the request that opened it, body and client included, as long as the connection lives.
      socket.off('error', failed).off('close', closed)
      const connection = new EngineConnection(socket, this.#host, this)
      this.#all.add(connection)
      onOpen(connection)
    })
    return () => {
      if (settle()) socket.destroy()
    }
  }

  onIdle(connection: EngineConnection): void {
    if (this.#isClosed || this.#idle.length >= this.#options.idleConnectionsMax) {
      connection.destroy()
      return
    }
    connection.idleSinceMs = this.#options.now()
    this.#idle.push(connection)
    this.#sweep ??= setTimeout(() => this.#dropOld(), this.#options.idleMs).unref()
  }

  onGone(connection: EngineConnection): void {
    this.#all.delete(connection)
  }

  close(): void {
    this.#isClosed = true
    clearTimeout(this.#sweep)
    this.#sweep = undefined
    for (const [socket, failed] of this.#connecting) {
      socket.destroy()
      failed()
    }
    for (const connection of this.#all) connection.destroy()
    this.#idle.length = 0
  }

  #dropOld(): void {
    const oldest = this.#options.now() - this.#options.idleMs
    let kept = 0
    for (const connection of this.#idle) {
      if (!connection.isIdle) continue
      if (connection.idleSinceMs <= oldest) connection.destroy()
      else this.#idle[kept++] = connection
    }
    this.#idle.length = kept
    this.#sweep = kept > 0 ? setTimeout(() => this.#dropOld(), this.#options.idleMs / 2).unref() : undefined
  }
}

class Call implements EngineCall, AnswerHandlers {
  readonly #link: EngineLink
  /** Until the engine answers: from then on it cannot be sent again, and a stream may go on for minutes. */
  #request: EngineRequest | undefined
  readonly #handlers: AnswerHandlers
  #connection: EngineConnection | undefined
  #cancelOpen: (() => void) | undefined
  #isKept = false
  #isOver = false
  #isPaused = false

  constructor(link: EngineLink, request: EngineRequest, handlers: AnswerHandlers) {
    this.#link = link
    this.#request = request
    this.#handlers = handlers
  }

  get isBetweenChunks(): boolean {
    return this.#connection?.isBetweenChunks ?? false
  }

  get isSent(): boolean {
    return this.#connection?.isSent ?? false
  }

  start(): void {
    const kept = this.#link.takeIdle()
    if (kept) {
      this.#isKept = true
      this.#use(kept)
    } else this.#openNew()
  }

  abort(): void {
    this.#isOver = true
    this.#cancelOpen?.()
    this.#connection?.abort()
  }

  pause(): void {
    if (this.#isOver) return
    this.#isPaused = true
    this.#connection?.socket.pause()
  }

  /** Too late when the answer is whole: the connection may be another request's by then. */
  resume(): void {
    if (this.#isOver) return
    this.#isPaused = false
    this.#connection?.socket.resume()
  }

  onHead(head: Parameters<AnswerHandlers['onHead']>[0]): void {
    this.#isKept = false
    this.#request = undefined
    this.#handlers.onHead(head)
  }

  onData(buffer: Buffer, ranges: readonly number[], rawEnd: number, isLast: boolean): void {
    this.#handlers.onData(buffer, ranges, rawEnd, isLast)
  }

  onEnd(): void {
    if (this.#isOver) return
    this.#isOver = true
    if (this.#isPaused) this.#connection?.socket.resume() // it may serve another request by now
    this.#handlers.onEnd()
    this.#connection = undefined // it serves others now, whom whoever still knows this call would keep
  }

  onError(error: WarmrouteError, isUntouched: boolean): void {
    if (this.#isOver) return
    if (this.#isKept && isUntouched && !this.#request?.mayStillSend) {
      this.#isKept = false
      this.#openNew()
    } else this.fail(error, isUntouched)
  }

  fail(error: WarmrouteError, isUntouched = true): void {
    if (this.#isOver) return
    this.#isOver = true
    this.#handlers.onError(error, isUntouched)
  }

  #openNew(): void {
    this.#cancelOpen = this.#link.open(
      (connection) => {
        this.#cancelOpen = undefined
        this.#use(connection)
      },
      (error) => this.fail(error),
    )
  }

  #use(connection: EngineConnection): void {
    const request = this.#request!
    if (request.mayStillSend?.() === false) {
      this.#link.onIdle(connection) // for another request; this one has nothing to do with it any more
      this.fail(new WarmrouteError('WR_ENGINE_UNREACHABLE', { reason: 'a connection came too late' }))
      return
    }
    this.#connection = connection
    if (this.#isPaused) connection.socket.pause()
    connection.send(request, this)
    this.#handlers.onSent?.()
  }
}

function reasonOf(cause: NodeJS.ErrnoException | undefined): string {
  if (cause?.code === 'EMFILE' || cause?.code === 'ENFILE')
    return `this process may open no more files (${cause.code}): raise its limit, for instance with \`ulimit -n 65536\``
  return cause?.message ?? 'closed'
}

function closed(): WarmrouteError {
  return new WarmrouteError('WR_ENGINE_UNREACHABLE', { reason: 'the way to this worker is closed' })
}
