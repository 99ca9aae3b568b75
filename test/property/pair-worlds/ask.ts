/** One request to a gateway on a connection of its own, inside this process. */
import type { Gateway } from '../../../src/server/index.js'
import { socketPair } from '../../../src/sim/index.js'

export interface Answer {
  readonly status: number
  /** Lower case. */
  readonly headers: string
  readonly text: string
}

export interface Asked {
  /** Undefined: the connection ended without an answer. */
  readonly done: Promise<Answer | undefined>
  readonly isOver: boolean
  leave(): void
}

export function ask(gateway: Gateway, path: string, body?: string): Asked {
  const [mine, theirs] = socketPair()
  let text = ''
  let isOver = false
  const done = new Promise<Answer | undefined>((resolve) => {
    mine.on('data', (chunk: Buffer) => (text += chunk.toString('latin1')))
    mine.once('close', () => {
      isOver = true
      const end = text.indexOf('\r\n\r\n')
      const status = Number(/^HTTP\/1\.1 (\d+)/.exec(text)?.[1])
      resolve(end < 0 ? undefined : { status, headers: text.slice(0, end).toLowerCase(), text: text.slice(end) })
    })
  })
  gateway.accept(theirs)
  const method = body === undefined ? 'GET' : 'POST'
  const head = [`${method} ${path} HTTP/1.1`, 'host: x', 'connection: close']
  if (body !== undefined) head.push('content-type: application/json', `content-length: ${Buffer.byteLength(body)}`)
  mine.write(`${head.join('\r\n')}\r\n\r\n${body ?? ''}`)
  return {
    done,
    get isOver() {
      return isOver
    },
    leave: () => void mine.destroy(),
  }
}
