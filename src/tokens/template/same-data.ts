/** Whether two values would print alike in every template, and what they hold in memory. */
import type { Value } from './values.js'
import { DictView, Float, Lazy, LoopState, Namespace } from './values.js'

/** Deeper values are not compared: they are not kept. */
const depthMax = 32
const entryBytes = 32
/** Nor are larger ones kept: a list of one list twice, and so on, would be walked for ever. */
const dataBytesMax = 16 << 20

/** The same kind, the same spelling, the same keys in the same order: `1` and `1.0` differ, and so do two orders of keys. */
export function isSameData(a: Value, b: Value): boolean {
  if (a === b) return !(a === 0 && Object.is(a, -0) !== Object.is(b, -0))
  if (typeof a !== typeof b) return false
  if (typeof a === 'number') return Number.isNaN(a) && Number.isNaN(b)
  if (typeof a !== 'object' || typeof b !== 'object' || a === null || b === null) return false
  if (Object.getPrototypeOf(a) !== Object.getPrototypeOf(b)) return false
  if (a instanceof Float) return Object.is(a.value, (b as Float).value)
  if (a instanceof DictView && a.name !== (b as DictView).name) return false
  if (Array.isArray(a)) return isSameList(a as readonly Value[], b as readonly Value[])
  if (a instanceof Map) return isSameMap(a as Map<Value, Value>, b as Map<Value, Value>)
  if (a instanceof Namespace || a instanceof LoopState || a instanceof Lazy) return false
  return isSameRecord(a as Readonly<Record<string, Value>>, b as Readonly<Record<string, Value>>)
}

function isSameList(a: readonly Value[], b: readonly Value[]): boolean {
  if (a.length !== b.length) return false
  for (let index = 0; index < a.length; index++) if (!isSameData(a[index], b[index])) return false
  return true
}

function isSameMap(a: ReadonlyMap<Value, Value>, b: ReadonlyMap<Value, Value>): boolean {
  if (a.size !== b.size) return false
  const others = b.entries()
  for (const [key, value] of a) {
    const [otherKey, other] = others.next().value!
    if (!isSameData(key, otherKey) || !isSameData(value, other)) return false
  }
  return true
}

function isSameRecord(a: Readonly<Record<string, Value>>, b: Readonly<Record<string, Value>>): boolean {
  const others = Object.keys(b)
  let index = 0
  for (const key in a) if (key !== others[index++] || !isSameData(a[key], b[key])) return false
  return index === others.length
}

/** Bytes that plain data holds, rather too many than too few; undefined for what is no plain data. Functions are themselves. */
function sizeOfData(value: Value, depth: number = 0): number | undefined {
  if (typeof value === 'string') return entryBytes + 2 * value.length
  if (typeof value !== 'object' || value === null || value instanceof Float) return entryBytes
  if (depth === depthMax || value instanceof Namespace || value instanceof LoopState) return undefined
  if (value instanceof Lazy) return undefined
  let bytes = entryBytes
  if (Array.isArray(value)) {
    for (const item of value as readonly Value[]) {
      const size = sizeOfData(item, depth + 1)
      if (size === undefined || bytes > dataBytesMax) return undefined
      bytes += size
    }
    return bytes
  }
  const entries = value instanceof Map ? (value as Map<Value, Value>) : Object.entries(value as Record<string, Value>)
  for (const [key, item] of entries) {
    const size = sizeOfData(item, depth + 1)
    if (size === undefined || bytes > dataBytesMax) return undefined
    bytes += size + entryBytes + (typeof key === 'string' ? 2 * key.length : 0)
  }
  return bytes
}

export function sizeOfAll(values: readonly Value[]): number | undefined {
  let bytes = 0
  for (const value of values) {
    const size = sizeOfData(value)
    if (size === undefined) return undefined
    bytes += size
  }
  return bytes
}
