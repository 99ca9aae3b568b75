/**
 * A client's request as Node has it, except for the headers of one that has many whose names are new. Node would have V8 keep them all; these
 * lie in an object that does not (docs/decisions/0273). Only a few names matter to anybody.
 */
import type { IncomingHttpHeaders } from 'node:http'
import { IncomingMessage } from 'node:http'
import { unkept } from '../../core/protocol/index.js'
import { KeptTable } from '../kept-table.js'

/** What a head may bring that those before did not have. */
const newMax = 16

const usual = Object.getOwnPropertyDescriptor(IncomingMessage.prototype, 'headers')!

export class ClientMessage extends IncomingMessage {
  #unkept: IncomingHttpHeaders | undefined
  #isLookedAt = false

  static {
    Object.defineProperty(this.prototype, 'headers', {
      get(this: ClientMessage) {
        return this.#readHeaders()
      },
    })
  }

  #readHeaders(): IncomingHttpHeaders {
    if (!this.#isLookedAt && this.rawHeaders.length > 0) {
      this.#isLookedAt = true
      if (!admitsNames(this.rawHeaders)) {
        KeptTable.ofProcess.unkept.head++
        this.#unkept = unkeptHeaders(this.rawHeaders)
      }
    }
    return this.#unkept ?? (usual.get!.call(this) as IncomingHttpHeaders)
  }
}

/** Whether V8 may have the names. */
function admitsNames(raw: readonly string[]): boolean {
  const table = KeptTable.ofProcess
  let toKeep = 0
  let left = newMax
  for (let at = 0; at < raw.length; at += 2) {
    const newness = table.look(hashOf(raw[at]!, table.seed))
    if (newness === 'kept') continue
    toKeep++
    if (newness === 'new') left--
    if (left < 0 || !table.hasRoom(toKeep)) return false
  }
  if (toKeep > 0) for (let at = 0; at < raw.length; at += 2) table.keep(hashOf(raw[at]!, table.seed))
  return true
}

/** Of a name in lower case, as V8 gets it. */
function hashOf(name: string, seed: number): number {
  let hash = seed
  for (let at = 0; at < name.length; at++) {
    const unit = name.charCodeAt(at)
    const lower = unit >= 0x41 && unit <= 0x5a ? unit | 0x20 : unit
    hash = KeptTable.mix(hash, lower, lower)
  }
  return hash
}

/** Of these Node takes the first, and joins the others. */
// biome-ignore format: a list of names
const onlyOnce = new Set(['age', 'authorization', 'content-length', 'content-type', 'etag', 'expires', 'from', 'host', 'if-modified-since', 'if-unmodified-since', 'last-modified', 'location', 'max-forwards', 'proxy-authorization', 'referer', 'retry-after', 'server', 'user-agent'])

function unkeptHeaders(raw: readonly string[]): IncomingHttpHeaders {
  const fields = new Map<string, string | string[] | undefined>()
  for (let at = 0; at < raw.length; at += 2) {
    const name = raw[at]!.toLowerCase()
    const value = raw[at + 1]!
    const before = fields.get(name)
    if (name === 'set-cookie') fields.set(name, [...((before as string[] | undefined) ?? []), value])
    else if (before === undefined) fields.set(name, value)
    else if (!onlyOnce.has(name)) fields.set(name, `${String(before)}${name === 'cookie' ? '; ' : ', '}${value}`)
  }
  return unkept(fields)
}
