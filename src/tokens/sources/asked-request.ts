/** A request about whose tokens an engine is asked: how it is read and spelled, and by which key its answer is known. */
import { createHash } from 'node:crypto'
import { entriesOf } from '../../core/protocol/index.js'
import { readBody } from '../chat/exact-body.js'
import type { Body, Route } from '../chat/request.js'
import { mayDifferFromPython } from '../template/python-json.js'
import { dumps } from '../template/spell.js'
import type { Value } from '../template/values.js'

const reparsedBytesMax = 64 << 10
/** Fields that never change tokens, left out of the key. */
const quietFields = new Set([
  'cache_salt',
  'frequency_penalty',
  'logprobs',
  'max_completion_tokens',
  'max_tokens',
  'min_tokens',
  'n',
  'presence_penalty',
  'priority',
  'request_id',
  'seed',
  'session_id',
  'stop',
  'stream',
  'stream_options',
  'temperature',
  'top_k',
  'top_logprobs',
  'top_p',
  'user',
])

/** A request as it is asked for: `1.0` and `1` are two, and the engine is to see the one that the client wrote. */
export interface AskedRequest {
  readonly body: Body
  /** What the client wrote, where that is known. */
  readonly text: string | Uint8Array<ArrayBuffer> | undefined
  /** Writes parts of the body as the client did; undefined where only the whole text has them. */
  readonly spell: ((value: Value) => string) | undefined
  /** It is known by its bytes: spelling it takes long. */
  readonly isUnread?: boolean
}

/** One that was left unread for what V8 would keep of it. */
export function readShort(raw: Uint8Array | undefined): Body | undefined {
  return raw && raw.length <= reparsedBytesMax ? readBody(textOf(raw), { isUnkept: true }) : undefined
}

export function readRequest(body: Body, raw: Uint8Array | undefined, isParsed: boolean): AskedRequest {
  if (raw === undefined) return { body, text: undefined, spell: JSON.stringify }
  const text = textOf(raw)
  if (!isParsed) return { body, text, spell: dumps, isUnread: true }
  if (!mayDifferFromPython(text)) return { body, text, spell: JSON.stringify }
  if (raw.length > reparsedBytesMax) return { body, text, spell: undefined }
  return { body: readBody(text), text, spell: dumps }
}

function textOf(raw: Uint8Array): string {
  return Buffer.from(raw.buffer, raw.byteOffset, raw.length).toString('utf8')
}

/** By what it says, and by the time that a template may show. */
export function keyOf(route: Route, { body, text, spell, isUnread = false }: AskedRequest, day: string): string {
  const hash = createHash('sha256').update(`${route} ${day} `)
  if (!spell || isUnread) return hash.update(text ?? '').digest('base64')
  const telling = [...entriesOf(body)].filter(([name]) => !quietFields.has(name))
  return hash.update(spell(telling)).digest('base64')
}
