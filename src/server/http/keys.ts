/** API keys: only their SHA-256 is held, and comparing takes the same time whatever was sent. */
import { createHash, timingSafeEqual } from 'node:crypto'
import type { IncomingMessage } from 'node:http'
import { isIP } from 'node:net'
import { hostname } from 'node:os'

/** What a configuration holds instead of the key. */
export function hashKey(key: string): string {
  return createHash('sha256').update(key).digest('hex')
}

export class KeyRing {
  readonly #hashes: readonly Buffer[]

  /** Throws a `TypeError` for a text that is no SHA-256 in hex: a plain key by mistake must not look like protection. */
  constructor(hashes: readonly string[]) {
    this.#hashes = hashes.map((hash) => {
      if (!/^[0-9a-f]{64}$/i.test(hash)) throw new TypeError('a key hash has 64 hex digits')
      return Buffer.from(hash, 'hex')
    })
  }

  get isEmpty(): boolean {
    return this.#hashes.length === 0
  }

  /** Every hash is compared, so that the time does not tell which one was near. */
  accepts(key: string | undefined): boolean {
    if (key === undefined) return false
    const sent = createHash('sha256').update(key).digest()
    let isKnown = false
    for (const hash of this.#hashes) if (timingSafeEqual(sent, hash)) isKnown = true
    return isKnown
  }
}

/** `authorization: Bearer …`, or Anthropic's `x-api-key`. */
export function keyOf(request: IncomingMessage): string | undefined {
  const { authorization } = request.headers
  if (authorization !== undefined && /^bearer /i.test(authorization)) return authorization.slice(7).trim()
  const own = request.headers['x-api-key']
  return typeof own === 'string' ? own : undefined
}

/** Headers that proxies add for those behind them, and browsers for the page that asks. */
const onBehalfOf = ['forwarded', 'x-forwarded-for', 'x-real-ip', 'via', 'origin'] as const

/**
 * Asked by somebody on this machine, for himself: not through a proxy here, and not by a page in his browser, which may
 * be anybody's and can send an order without reading the answer, or read it where its own name leads to this machine.
 */
export function isFromHere({ socket, headers }: IncomingMessage): boolean {
  const isForHimself = onBehalfOf.every((name) => headers[name] === undefined)
  return isLoopback(socket.remoteAddress) && isForHimself && isOwnName(headers.host)
}

/** Nobody else can give this machine such a name: an address, one without a dot, or what it calls itself. */
function isOwnName(host = ''): boolean {
  const name = host.replace(/:\d+$/, '').replace(/\.$/, '').toLowerCase()
  const isPrivate = !name.includes('.') || name.endsWith('.localhost') || name === hostname().toLowerCase()
  return isPrivate || isIP(name.replace(/^\[(.*)\]$/, '$1')) !== 0
}

function isLoopback(address: string | undefined): boolean {
  return address === '::1' || /^(?:::ffff:)?127\./.test(address ?? '')
}
