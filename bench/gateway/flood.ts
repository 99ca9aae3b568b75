/** A kind of flood: what each of its requests is made of. */
import type { Sent } from './send.js'

/** Words that nobody had before, and what is made of them. */
export interface Fresh {
  readonly words: <T>(count: number, make: (word: string) => T) => T[]
  readonly named: (count: number, value: unknown) => object
  readonly messages: readonly object[]
}

export interface Kind {
  /** New ones in a request. */
  readonly news: number
  readonly make: (fresh: Fresh, news: number) => Sent
}

export function ask(path: string, body: object, headers?: Sent['headers']): Sent {
  return { path, body: Buffer.from(JSON.stringify({ model: 'm', ...body })), ...(headers && { headers }) }
}
