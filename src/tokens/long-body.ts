/**
 * A parsed body that is too much for one turn of the loop: to know it costs next to nothing, and to spell it as JSON takes as many turns as it
 * needs. What is done with it then is what is done with a long body that came as bytes.
 */
import { WarmrouteError } from '../core/protocol/index.js'
import { LoadOnlyError, malformed } from './chat/request.js'
import { isFirstHalf, nextTurn, Turn, unwritten } from './next-turn.js'
import { spellNumber } from './template/spell.js'
import { Float } from './template/values.js'

/** In UTF-16 units of texts; whatever else is in a body counts as some. About 2,500 short messages, or 128,000 token ids. */
const weightMax = 512 << 10
const [objectWeight, textWeight, otherWeight] = [64, 16, 4]
/** Raw bytes of a request that are read and looked through on the loop. */
const rawBytesMax = 512 << 10
/** Of JSON. A thread takes no more, and no engine is asked for more. */
const spelledBytesMax = 16 << 20
/** Deeper than anybody reads; an object that holds itself ends here, too. */
const depthMax = 10_000
/** Units that are spelled before somebody looks at the clock: 0.5 ms where every one is an object. */
const chunkUnits = 8 << 10
/** V8 tells an object's keys all at once: who has asked for so many looks at the clock. */
const manyKeys = 1000

/** Whether building a prompt of it, or writing it as JSON, may hold the loop. Stops where that is settled, and of its texts reads only the length. */
export function isLongBody(body: object, raw?: Uint8Array): boolean {
  return raw ? raw.length > rawBytesMax : weightLeft(body, weightMax) < 0
}

/** What a value leaves of so much; less than nothing where it is too much. */
export function weightLeft(value: unknown, left: number): number {
  if (typeof value === 'string') return left - value.length - textWeight
  if (typeof value !== 'object' || value === null) return left - otherWeight
  left -= objectWeight
  if (ArrayBuffer.isView(value)) return left - value.byteLength // who asks for its keys is told one for each
  if (Array.isArray(value)) {
    for (let index = 0; index < value.length && left >= 0; index++) left = weightLeft(value[index], left)
    return left
  }
  if (value instanceof Map) return mapWeightLeft(value, left)
  for (const key in value) {
    left = weightLeft((value as Record<string, unknown>)[key], left - key.length - textWeight)
    if (left < 0) break
  }
  return left
}

function mapWeightLeft(value: ReadonlyMap<unknown, unknown>, left: number): number {
  for (const [key, item] of value) {
    left = weightLeft(item, weightLeft(key, left))
    if (left < 0) break
  }
  return left
}

/**
 * The bytes of `JSON.stringify(body)`, in memory of their own. Values that JSON does not have and templates do are spelled as Python reads
 * them: ints of any size, `1.0`, mappings with an order. The body must stay as it is until then.
 */
export async function spellInSlices(
  body: object,
  options: { readonly signal?: AbortSignal | undefined; readonly chunk?: number } = {},
): Promise<Uint8Array<ArrayBuffer>> {
  const spelled = new Spelled()
  const turn = new Turn()
  await turn.next() // what it weighs was looked at in this one
  for (const part of partsOf(body, options.chunk ?? chunkUnits)) {
    spelled.add(part)
    if (!turn.isOver) continue
    await turn.next()
    options.signal?.throwIfAborted()
  }
  return spelled.join()
}

/** Bytes of texts, one behind the other, in blocks: nobody knows how many there will be. */
class Spelled {
  readonly #blocks: Uint8Array[] = []
  #block = new Uint8Array(0)
  #written = 0
  /** Of the blocks before. */
  #length = 0

  add(text: string): void {
    if (text.length * 3 > this.#block.length - this.#written) this.#open(text.length * 3)
    this.#written += utf8.encodeInto(text, this.#block.subarray(this.#written)).written
  }

  async join(): Promise<Uint8Array<ArrayBuffer>> {
    this.#open(0)
    const bytes = new Uint8Array(unwritten(this.#length))
    let at = 0
    for (const block of this.#blocks) {
      await nextTurn()
      bytes.set(block, at)
      at += block.length
    }
    return bytes
  }

  #open(bytes: number): void {
    this.#blocks.push(this.#block.subarray(0, this.#written))
    this.#length += this.#written
    refuseLonger(this.#length)
    this.#block = bytes === 0 ? this.#block : new Uint8Array(unwritten(Math.max(blockBytes, bytes)))
    this.#written = 0
  }
}

const utf8 = new TextEncoder()
const blockBytes = 512 << 10

/** Before it is touched: a text that was joined of others is put together by whoever reads its first character. */
function refuseLonger(length: number): void {
  if (length > spelledBytesMax)
    throw new WarmrouteError('WR_TOKENS_TEXT_TOO_LONG', { length, lengthMax: spelledBytesMax })
}

/** An object or list whose beginning is written. */
interface Open {
  readonly value: object
  /** Of an object; a list has none. */
  readonly keys: readonly unknown[] | undefined
  next: number
  isEmpty: boolean
}

/** Parts of the text, of about so many units: without recursion, since a body may be nested as deeply as it likes. */
function* partsOf(body: unknown, chunk: number): Generator<string> {
  const opened: Open[] = []
  let value: unknown = plainOf(body, '')
  let out = ''
  for (;;) {
    if (typeof value === 'string') {
      if (value.length <= chunk) out += JSON.stringify(value)
      else {
        refuseLonger(value.length)
        yield `${out}"`
        yield* escaped(value, chunk)
        out = '"'
      }
    } else if (isOpened(value)) {
      out += Array.isArray(value) ? '[' : '{'
      const keys = keysOf(value)
      opened.push({ value, keys, next: 0, isEmpty: true })
      if (keys && keys.length > manyKeys) yield ''
      if (opened.length > depthMax) throw new RangeError('the body is nested too deeply')
    } else out += spellOther(value)
    for (;;) {
      if (out.length > chunk) {
        yield out
        out = ''
      }
      const top = opened.at(-1)
      if (!top) return yield out
      const { keys } = top
      if (top.next === (keys ?? (top.value as readonly unknown[])).length) {
        out += keys ? '}' : ']'
        opened.pop()
        continue
      }
      const key = keys ? keys[top.next] : top.next
      top.next++
      value = plainOf(itemOf(top.value, key), String(key))
      if (keys && isLeftOut(value)) continue
      if (!top.isEmpty) out += ','
      top.isEmpty = false
      if (!keys) break
      const name = String(key)
      if (name.length <= chunk) out += `${JSON.stringify(name)}:`
      else {
        refuseLonger(name.length)
        yield `${out}"`
        yield* escaped(name, chunk)
        out = '":'
      }
      break
    }
  }
}

/** What stands between the quotes. The two halves of a character stay together: one alone is written otherwise. */
function* escaped(text: string, chunk: number): Generator<string> {
  for (let at = 0, end = 0; at < text.length; at = end) {
    end = Math.min(text.length, at + chunk)
    if (end < text.length && isFirstHalf(text.charCodeAt(end - 1))) end--
    yield JSON.stringify(text.slice(at, end)).slice(1, -1)
  }
}

function plainOf(value: unknown, key: string): unknown {
  if (typeof value !== 'object' || value === null) return value
  if (ArrayBuffer.isView(value)) malformed('bytes are no JSON')
  const { toJSON } = value as { readonly toJSON?: unknown }
  const plain = typeof toJSON === 'function' ? (toJSON.call(value, key) as unknown) : value
  const isBoxed = plain instanceof String || plain instanceof Number || plain instanceof Boolean
  return isBoxed ? plain.valueOf() : plain
}

function isOpened(value: unknown): value is object {
  return typeof value === 'object' && value !== null && !(value instanceof Float)
}

function keysOf(value: object): readonly unknown[] | undefined {
  if (Array.isArray(value)) return undefined
  return value instanceof Map ? [...value.keys()] : Object.keys(value)
}

function itemOf(value: object, key: unknown): unknown {
  return value instanceof Map ? value.get(key) : (value as Record<string, unknown>)[key as string]
}

function isLeftOut(value: unknown): boolean {
  return value === undefined || typeof value === 'function' || typeof value === 'symbol'
}

/** Of more digits Python reads none, and to write them would take as long as they like. */
const intEnd = 10n ** 4300n

function spellOther(value: unknown): string {
  if (typeof value === 'bigint' && (value >= intEnd || value <= -intEnd))
    throw new LoadOnlyError('too-long', 'an int has too many digits')
  if (typeof value === 'bigint' || value instanceof Float) return spellNumber(value)
  return JSON.stringify(value) ?? 'null'
}
