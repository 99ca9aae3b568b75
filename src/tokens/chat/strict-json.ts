/**
 * JSON as SGLang reads the arguments of a call: by `orjson`, which refuses what Python takes (`NaN`, halves of surrogate pairs, numbers that
 * are infinite) and makes floats of ints that have no room in 64 bits.
 */
import { objectOf } from '../../core/protocol/index.js'
import { JsonError, parsePythonJson } from '../template/python-json.js'
import type { Value } from '../template/values.js'
import { Float, float } from '../template/values.js'

/** Undefined: it is no JSON to it. */
export function readStrictly(text: string): Value {
  try {
    return strict(parsePythonJson(text, { isUnkept: true }))
  } catch (error) {
    if (error instanceof JsonError && error.reason === 'malformed') return undefined
    throw error
  }
}

const [intMin, intMax] = [-(2n ** 63n), 2n ** 64n - 1n]

function strict(value: Value): Value {
  if (typeof value === 'string') return value.isWellFormed() ? value : refuse()
  if (typeof value === 'bigint') return value < intMin || value > intMax ? float(Number(value)) : value
  const number = value instanceof Float ? value.value : value
  if (typeof number === 'number') return Number.isFinite(number) ? value : refuse()
  if (Array.isArray(value)) return (value as readonly Value[]).map(strict)
  if (value instanceof Map)
    return new Map([...(value as ReadonlyMap<Value, Value>)].map(([key, it]) => [strict(key), strict(it)]))
  if (typeof value !== 'object' || value === null) return value
  return objectOf(Object.entries(value).map(([key, it]) => [strict(key) as string, strict(it as Value)]))
}

function refuse(): never {
  throw new JsonError('a value that only Python takes')
}
