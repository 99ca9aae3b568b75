/** A scripted engine on a real socket for tests: answers what it is told, remembers what it was sent. */
import { createServer } from 'node:http'
import type { IncomingMessage, Server, ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import type { Duplex } from 'node:stream'

export interface SeenRequest {
  readonly method: string
  readonly path: string
  readonly headers: IncomingMessage['headers']
  readonly text: string
  readonly bytes: Buffer
}

export interface FakeEngine {
  readonly url: string
  readonly seen: SeenRequest[]
  /** Connections that a client closed before the answer ended. */
  readonly aborted: () => number
  readonly sockets: () => number
  /** Settles at the next abort. */
  readonly nextAbort: () => Promise<void>
  respond: Responder
  /** What GET requests, such as health checks, are answered with. */
  health: number
  /** GET requests that came, and the texts that some paths are answered with. */
  readonly asked: { readonly path: string; readonly headers: IncomingMessage['headers'] }[]
  readonly pages: Map<string, string | Responder>
  close(): Promise<void>
}

export type Responder = (request: SeenRequest, response: ServerResponse) => void | Promise<void>

/** Where it is reached, if not on a socket of the system. */
export interface FakeNet {
  listen(server: Server, host: string, port: number): Promise<number>
  close(server: Server): Promise<void>
}

export async function startFakeEngine(respond: Responder = answerChat, net?: FakeNet): Promise<FakeEngine> {
  const seen: SeenRequest[] = []
  const sockets = new Set<Duplex>()
  let aborted = 0
  let waiting: (() => void)[] = []
  const server = createServer((request, response) => {
    const parts: Buffer[] = []
    response.on('close', () => {
      if (response.writableFinished) return
      aborted++
      for (const wake of waiting) wake()
      waiting = []
    })
    request.on('data', (part: Buffer) => parts.push(part))
    request.on('end', () => {
      const bytes = Buffer.concat(parts)
      const one = {
        method: request.method ?? '',
        path: request.url ?? '',
        headers: request.headers,
        text: bytes.toString('utf8'),
        bytes,
      }
      if (request.method === 'GET') {
        engine.asked.push(one)
        const page = engine.pages.get(one.path)
        if (typeof page === 'function') return void page(one, response)
        response.writeHead(page === undefined ? engine.health : 200, { 'content-type': 'text/plain' }).end(page ?? 'ok')
        return
      }
      seen.push(one)
      void engine.respond(one, response)
    })
  })
  server.on('connection', (socket) => {
    sockets.add(socket)
    socket.on('close', () => sockets.delete(socket))
  })
  if (!net) await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const port = net ? await net.listen(server, '', 0) : (server.address() as AddressInfo).port
  const engine: FakeEngine = {
    url: `http://127.0.0.1:${port}`,
    seen,
    aborted: () => aborted,
    sockets: () => sockets.size,
    nextAbort: () => new Promise((resolve) => waiting.push(resolve)),
    respond,
    health: 200,
    asked: [],
    pages: new Map(),
    close: () =>
      new Promise((resolve) => {
        for (const socket of sockets) socket.destroy()
        if (net) return resolve(net.close(server))
        server.close(() => resolve())
        server.closeAllConnections()
      }),
  }
  return engine
}

/** Chat and completions as vLLM does them, four tokens long. */
export function answerChat(request: SeenRequest, response: ServerResponse): void {
  const body = JSON.parse(request.text) as {
    stream?: boolean
    model?: string
    stream_options?: { include_usage?: boolean }
  }
  const model = body.model ?? 'm'
  const usage = {
    prompt_tokens: 32,
    completion_tokens: 4,
    total_tokens: 36,
    prompt_tokens_details: { cached_tokens: 16 },
  }
  if (!body.stream) {
    const text = JSON.stringify({
      id: 'chatcmpl-1',
      object: 'chat.completion',
      model,
      choices: [{ index: 0, message: { role: 'assistant', content: 'one two three four' }, finish_reason: 'stop' }],
      usage,
    })
    response.writeHead(200, { 'content-type': 'application/json', 'content-length': Buffer.byteLength(text) })
    response.end(text)
    return
  }
  response.writeHead(200, { 'content-type': 'text/event-stream; charset=utf-8' })
  for (const frame of chatFrames(model, body.stream_options?.include_usage === true ? usage : undefined))
    response.write(frame)
  response.end()
}

export function chatFrames(model: string, usage?: object): string[] {
  const frame = (value: object): string =>
    `data: ${JSON.stringify({ id: 'chatcmpl-1', object: 'chat.completion.chunk', model, ...value })}\n\n`
  const frames = [frame({ choices: [{ index: 0, delta: { role: 'assistant', content: '' }, finish_reason: null }] })]
  for (const word of ['one', ' two', ' three'])
    frames.push(frame({ choices: [{ index: 0, delta: { content: word }, finish_reason: null }] }))
  frames.push(frame({ choices: [{ index: 0, delta: { content: ' four' }, finish_reason: 'stop' }] }))
  if (usage) frames.push(frame({ choices: [], usage }))
  frames.push('data: [DONE]\n\n')
  return frames
}

/** Sends the first frames and then does what it is told. */
export function startThen(then: (response: ServerResponse) => void, count = 2): Responder {
  return (_request, response) => {
    response.writeHead(200, { 'content-type': 'text/event-stream' })
    for (const frame of chatFrames('m').slice(0, count)) response.write(frame)
    setImmediate(() => then(response))
  }
}
