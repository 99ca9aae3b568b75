/** One HTTP exchange with a simulated server, in whatever world it lives. */
import { request as httpRequest } from 'node:http'
import type { SimWorld } from './sim-world.js'

export interface Said {
  readonly status: number
  readonly text: string
}

export interface AskOptions {
  readonly headers?: Readonly<Record<string, string>>
  readonly signal?: AbortSignal
}

/** POST with a body, GET without. Rejects when nobody answers. */
export function askEngine(
  { net }: Pick<SimWorld, 'net'>,
  port: number,
  path: string,
  body?: object,
  { headers, signal }: AskOptions = {},
): Promise<Said> {
  return new Promise((resolve, reject) => {
    const request = httpRequest({
      createConnection: () => net.connect('127.0.0.1', port),
      method: body ? 'POST' : 'GET',
      path,
      headers: { 'content-type': 'application/json', ...headers },
      ...(signal ? { signal } : {}),
    })
    request.once('error', reject)
    request.once('response', (response) => {
      let text = ''
      response.setEncoding('utf8').on('data', (part: string) => (text += part))
      response.once('end', () => resolve({ status: response.statusCode ?? 0, text })).once('error', reject)
    })
    request.end(body && JSON.stringify(body))
  })
}
