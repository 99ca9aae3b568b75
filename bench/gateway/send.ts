/** Sends one request to a gateway, in whatever shape. */
import { Agent, request as httpRequest } from 'node:http'

export interface Sent {
  readonly path: string
  readonly body: Buffer
  readonly headers?: Readonly<Record<string, string>>
}

const agent = new Agent({ keepAlive: true })
let nextId = 0

/** Its status: an answer or a typed refusal, never a connection that breaks. */
export function send(port: number, { path, body, headers: more }: Sent): Promise<number> {
  return new Promise((resolve, reject) => {
    const id = `hostile-${nextId++}`
    const headers = { ...more, 'content-type': 'application/json', 'content-length': body.length, 'x-request-id': id }
    const request = httpRequest({ port, host: '127.0.0.1', path, method: 'POST', headers, agent }, (response) => {
      response.resume().once('end', () => resolve(response.statusCode ?? 0))
    })
    request.once('error', reject).end(body)
  })
}
