/** How Python writes values: `str`, `repr` and `json.dumps`, to the character. */
import { spend } from './meter.js'
import { TemplateLimitError } from './run.js'
import type { Value } from './values.js'
import {
  compare,
  dictEntries,
  DictView,
  Float,
  isDict,
  isFloat,
  isList,
  isNumber,
  Markup,
  Namespace,
  Range,
  TemplateError,
  Tuple,
  typeName,
} from './values.js'

/** `str(value)`, which is what `{{ value }}` writes. */
export function str(value: Value): string {
  if (typeof value === 'string') return value
  if (value instanceof Markup) return value.text
  return value === undefined ? '' : repr(value)
}

export function repr(value: Value, depth = 0): string {
  if (depth > nestingMax) throw new TemplateError('a value is nested too deeply')
  if (depth === 0) spelledLeft = spelledMax
  takeValue(value)
  if (value === null) return 'None'
  if (value === undefined) return 'Undefined'
  if (typeof value === 'boolean') return value ? 'True' : 'False'
  if (typeof value === 'string') return reprText(value)
  if (isNumber(value)) return spellNumber(value)
  if (isList(value)) {
    if (value instanceof Range) throw new TemplateError('a range cannot be printed')
    const items = value.map((item) => repr(item, depth + 1)).join(', ')
    if (value instanceof DictView) return `${value.name}([${items}])`
    if (!(value instanceof Tuple)) return `[${items}]`
    return value.length === 1 ? `(${items},)` : `(${items})`
  }
  if (isDict(value)) {
    return `{${dictEntries(value)
      .map(([key, item]) => `${repr(key, depth + 1)}: ${repr(item, depth + 1)}`)
      .join(', ')}}`
  }
  throw new TemplateError(
    value instanceof Namespace ? 'a namespace cannot be printed' : `cannot print ${typeName(value)}`,
  )
}

const nestingMax = 500

/** Characters, about. A list of one list twice, and so on, is small in memory and would be printed for ever. */
const spelledMax = 1 << 24
/** In characters: a million of them take half a second. */
const nodeCost = 16
let spelledLeft = 0

function take(length: number): void {
  spelledLeft -= length
  if (spelledLeft < 0) throw new TemplateLimitError('output')
}

const nodeSteps = 3
const sliceUnits = 4096

function takeValue(value: Value): void {
  const length = typeof value === 'string' ? value.length : undefined
  take(length ?? nodeCost)
  spend(length === undefined ? nodeSteps : 1 + Math.min(length, sliceUnits) / 64)
}

/** Slice by slice: one text may be as long as all that a template may write. */
function inSlices(text: string, unitsPerStep: number, spellPart: (part: string) => string): string {
  if (text.length <= sliceUnits) {
    spend(text.length / unitsPerStep)
    return spellPart(text)
  }
  let out = ''
  for (let at = 0, end = 0; at < text.length; at = end) {
    end = Math.min(text.length, at + sliceUnits)
    const last = text.charCodeAt(end - 1)
    if (end < text.length && last >= 0xd800 && last < 0xdc00) end-- // the two halves of a character stay together
    spend(sliceUnits / unitsPerStep)
    out += spellPart(text.slice(at, end))
  }
  return out
}

export interface JsonOptions {
  /** The text of one level; none for one line. */
  readonly indent?: string | undefined
  readonly ensureAscii?: boolean
  readonly sortKeys?: boolean
  readonly separators?: readonly [string, string] | undefined
}

/** `json.dumps`, as the `tojson` filter of transformers calls it. */
export function dumps(value: Value, options: JsonOptions = {}): string {
  const { indent, ensureAscii = false, sortKeys = false } = options
  const level = indent
  const [itemSeparator, keySeparator] = options.separators ?? [level === undefined ? ', ' : ',', ': ']
  const text = ensureAscii ? quoteAscii : quote
  spelledLeft = spelledMax
  return write(value, 0)

  function write(item: Value, depth: number): string {
    if (depth > nestingMax) throw new TemplateError('a value is nested too deeply')
    takeValue(item)
    if (typeof item === 'string') return text(item)
    if (item instanceof Markup) return text(item.text)
    if (item === null) return 'null'
    if (typeof item === 'boolean') return item ? 'true' : 'false'
    if (isNumber(item)) return spellJsonNumber(item)
    if (isList(item) && !(item instanceof DictView)) {
      if (item.length === 0) return '[]'
      return wrap(
        '[',
        item.map((entry) => write(entry, depth + 1)),
        ']',
        depth,
      )
    }
    if (isDict(item)) {
      const entries = dictEntries(item)
      if (entries.length === 0) return '{}'
      if (sortKeys) entries.sort(([a], [b]) => compare(a, b))
      const parts = entries.map(([key, entry]) => text(keyText(key)) + keySeparator + write(entry, depth + 1))
      return wrap('{', parts, '}', depth)
    }
    throw new TemplateError(`${typeName(item)} is not JSON serializable`)
  }

  function wrap(open: string, parts: readonly string[], close: string, depth: number): string {
    take((itemSeparator.length + keySeparator.length) * parts.length)
    if (level === undefined) return open + parts.join(itemSeparator) + close
    take(level.length * (depth + 1) * (parts.length + 1))
    const inner = `\n${level.repeat(depth + 1)}`
    return `${open}${inner}${parts.join(itemSeparator + inner)}\n${level.repeat(depth)}${close}`
  }
}

function keyText(key: Value): string {
  if (typeof key === 'string') return key
  if (key === null) return 'null'
  if (typeof key === 'boolean') return key ? 'true' : 'false'
  if (!isNumber(key)) throw new TemplateError('keys must be str, int, float, bool or None')
  return spellJsonNumber(key)
}

function quote(text: string): string {
  if (text.length <= sliceUnits) return quotePart(text)
  return `"${inSlices(text, 64, (part) => quotePart(part).slice(1, -1))}"`
}

function quoteAscii(text: string): string {
  return `"${inSlices(text, 4, (part) => escapeNonAscii(JSON.stringify(part).slice(1, -1)))}"`
}

// JSON.stringify escapes a lone surrogate; Python leaves it.
function quotePart(text: string): string {
  const quoted = JSON.stringify(text)
  return quoted.includes('\\ud')
    ? quoted.replaceAll(/(?<!\\)((?:\\\\)*)\\u(d[89a-f][0-9a-f]{2})/g, (_, before: string, hex: string) => {
        return before + String.fromCharCode(Number.parseInt(hex, 16))
      })
    : quoted
}

function escapeNonAscii(text: string): string {
  return text.replaceAll(/[\u007f-\uffff]/g, (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`)
}

export function spellNumber(value: number | bigint | Float): string {
  if (typeof value === 'bigint') return value.toString()
  const number = value instanceof Float ? value.value : value
  if (!isFloat(value)) return number === 0 ? '0' : BigInt(number).toString()
  if (Number.isNaN(number)) return 'nan'
  if (!Number.isFinite(number)) return number < 0 ? '-inf' : 'inf'
  if (Object.is(number, -0)) return '-0.0'
  return spellFloat(number)
}

function spellJsonNumber(value: number | bigint | Float): string {
  const text = spellNumber(value)
  return text === 'nan' ? 'NaN' : text === 'inf' ? 'Infinity' : text === '-inf' ? '-Infinity' : text
}

/** Both languages print the shortest digits; they differ in when the exponent appears and how it is padded. */
function spellFloat(number: number): string {
  const size = Math.abs(number)
  if (size === 0 || (size >= 1e-4 && size < 1e16)) {
    const text = String(number)
    return text.includes('.') ? text : `${text}.0`
  }
  const [digits, exponent] = number.toExponential().split('e') as [string, string]
  const sign = exponent.startsWith('-') ? '-' : '+'
  return `${digits}e${sign}${exponent.slice(1).padStart(2, '0')}`
}

const unprintable = /[\\\p{C}\p{Z}]/u

function reprText(text: string): string {
  const mark = text.includes("'") && !text.includes('"') ? '"' : "'"
  return mark + inSlices(text, 4, (part) => reprPart(part, mark)) + mark
}

function reprPart(text: string, mark: string): string {
  let out = ''
  for (const char of text) {
    if (char === mark) out += `\\${char}`
    else if (char === ' ' || !unprintable.test(char)) out += char
    else out += escapeChar(char)
  }
  return out
}

function escapeChar(char: string): string {
  const named: Readonly<Record<string, string>> = { '\\': '\\\\', '\n': '\\n', '\r': '\\r', '\t': '\\t' }
  const known = named[char]
  if (known) return known
  const codePoint = char.codePointAt(0)!
  if (codePoint < 0x100) return `\\x${codePoint.toString(16).padStart(2, '0')}`
  if (codePoint < 0x1_0000) return `\\u${codePoint.toString(16).padStart(4, '0')}`
  return `\\U${codePoint.toString(16).padStart(8, '0')}`
}
