/** A request as Python would have parsed it: `JSON.parse` loses how numbers and keys were spelled, and templates print them. */
import { mayDifferFromPython, parsePythonJson } from '../template/python-json.js'
import type { Body, Route } from './request.js'
import { asRecord, malformed } from './request.js'

/** What the loop reads a second time. */
const loopReparseMax = 64 << 10

/** The body itself where its spelling cannot matter; undefined when reading it again is too much for the loop. */
export function exactBody(route: Route, body: Body, raw: Uint8Array | undefined): Body | undefined {
  if (raw === undefined || route === 'completions' || !carriesValues(body)) return body
  if (raw.length > loopReparseMax) return undefined
  const text = Buffer.from(raw.buffer, raw.byteOffset, raw.length).toString('utf8')
  return mayDifferFromPython(text) ? readBody(text) : body
}

export function readBody(text: string): Body {
  return asRecord(parsePythonJson(text)) ?? malformed('a request is an object')
}

/** Whether a body holds values that a template may print: numbers and keys whose spelling `JSON.parse` loses. */
function carriesValues(body: Body): boolean {
  if (body['tools'] || body['chat_template_kwargs'] || body['documents']) return true
  const { messages } = body
  return Array.isArray(messages) && messages.some((message) => carriesCalls(message as Body | null))
}

/** Calls and tools of a chat, or calls that Anthropic's messages have among their content. */
function carriesCalls(message: Body | null): boolean {
  if (message?.['tool_calls'] || message?.['tools']) return true
  const content = message?.['content']
  return Array.isArray(content) && content.some((block) => (block as Body | null)?.['type'] === 'tool_use')
}
