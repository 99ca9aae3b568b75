/** A request as Python would have parsed it: `JSON.parse` loses how numbers and keys were spelled, and templates print them. */
import type { JsonReading } from '../template/python-json.js'
import { mayDifferFromPython, parsePythonJson } from '../template/python-json.js'
import { weightLeft } from '../long-body.js'
import type { Value } from '../template/values.js'
import type { Body, Route } from './request.js'
import { asRecord, malformed } from './request.js'

/** What the loop reads a second time. */
const loopReparseMax = 64 << 10
/** Of the template's arguments, and of a response's items: what is made of them is copied several times. */
const [kwargsMax, itemsMax] = [1000, 1000]
/** What SGLang packed is read as so much of what it was. */
const sealedShare = 64

/** The body itself where its spelling cannot matter; undefined when reading it again, or building a prompt of it, is too much for the loop. */
export function exactBody(route: Route, body: Body, raw: Uint8Array | undefined): Body | undefined {
  if (isMuchToBuild(route, body)) return undefined
  if (raw === undefined || route === 'completions' || !carriesValues(body)) return body
  if (raw.length > loopReparseMax) return undefined
  const text = Buffer.from(raw.buffer, raw.byteOffset, raw.length).toString('utf8')
  return mayDifferFromPython(text) ? readBody(text) : body
}

/** Behind a byte order mark, which Python passes over. */
export function readBody(text: string, reading?: JsonReading): Body {
  const json = text.charCodeAt(0) === 0xfeff ? text.slice(1) : text
  return asRecord(parsePythonJson(json, reading)) ?? malformed('a request is an object')
}

/** Whether a body holds values that a template may print: numbers and keys whose spelling `JSON.parse` loses. */
function carriesValues(body: Body): boolean {
  if (body['tools'] || body['chat_template_kwargs'] || body['documents']) return true
  const { messages, input } = body
  // SGLang takes a call of a response whose arguments are not spelled as a text.
  if (listOf(input).some((item) => typeof fieldOf(item, 'arguments') === 'object')) return true
  return [...listOf(messages), ...listOf(input)].some(carriesCalls)
}

/** What calls were made with is JSON in a text, or becomes one, and is read where a prompt is built. Nobody looks at a clock there. */
export function isMuchToBuild(route: Route, body: Body): boolean {
  if (route === 'completions') return false
  if (sizeOf(body['chat_template_kwargs']) > kwargsMax || listOf(body['input']).length > itemsMax) return true
  let left = loopReparseMax
  for (const item of listOf(body['messages'] ?? body['input'])) {
    for (const call of listOf(fieldOf(item, 'tool_calls'))) left = weightLeft(call, left)
    for (const block of listOf(fieldOf(item, 'content')))
      if (fieldOf(block, 'type') === 'tool_use' || isSpelledResult(item, block)) left = weightLeft(block, left)
    if (callTypes.has(fieldOf(item, 'type')))
      left = weightLeft(fieldOf(item, 'arguments') ?? fieldOf(item, 'input'), left)
    const sealed = fieldOf(item, 'encrypted_content')
    if (typeof sealed === 'string') left -= sealed.length * sealedShare
    if (left < 0) return true
  }
  return false
}

/** vLLM has Python spell the parts of a result that an assistant brings. */
function isSpelledResult(message: Value, block: Value): boolean {
  return fieldOf(block, 'type') === 'tool_result' && fieldOf(message, 'role') === 'assistant'
}

const callTypes = new Set<Value>(['function_call', 'custom_tool_call'])

function sizeOf(value: Value): number {
  if (value instanceof Map) return value.size
  return typeof value === 'object' && value !== null ? Object.keys(value).length : 0
}

function listOf(value: Value): readonly Value[] {
  return Array.isArray(value) ? (value as readonly Value[]) : []
}

/** Of an object, or of a map that stands for one. */
function fieldOf(item: Value, name: string): Value {
  if (item instanceof Map) return item.get(name) as Value
  return typeof item === 'object' && item !== null ? (item as Body)[name] : undefined
}

/** Calls and tools of a chat, or calls that Anthropic's messages have among their content, or what else a part has, which templates see. */
function carriesCalls(message: Value): boolean {
  if (fieldOf(message, 'tool_calls') || fieldOf(message, 'tools')) return true
  return [...listOf(fieldOf(message, 'content')), ...listOf(fieldOf(message, 'output'))].some(hasMoreThanText)
}

/** A type and a text are all that most parts have. */
function hasMoreThanText(part: Value): boolean {
  if (typeof part !== 'object' || part === null) return false
  return Object.keys(part).some((name) => name !== 'type' && name !== 'text')
}
