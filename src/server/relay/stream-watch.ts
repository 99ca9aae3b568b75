/**
 * Looks into a relayed event stream only as far as routing needs: when the first token came, about how many there are,
 * and the usage at the end. One event counts as one token (`token-event.ts`), which is what engines send unless told otherwise;
 * the usage, where there is one, has the last word. Events are never put together unless they were cut, and never changed.
 */
import type { Endpoint } from '../request/endpoints.js'
import { standsForToken, tokenPattern } from './token-event.js'
import type { Usage } from './usage.js'
import { readUsage } from './usage.js'

const lf = 0x0a
const cr = 0x0d
/** A longer event is counted and not looked into. */
const eventBytesMax = 256 * 1024

export class StreamWatch {
  readonly #endpoint: Endpoint
  readonly #parts: Buffer[] = []
  #partBytes = 0
  #usageEvent: Buffer | undefined
  /** Anthropic's first event: SGLang says there, and only there, what it found in its cache. */
  #openingEvent: Buffer | undefined
  #hasToken = false
  #tokens = 0
  /** The last bytes seen ended an event (or nothing was seen): a comment of ours may follow. */
  isBetweenEvents = true
  /** `[DONE]` or the API's own last event was seen. */
  hasFinished = false
  /** The engine reported an error inside the stream. */
  hasError = false
  events = 0

  constructor(endpoint: Endpoint) {
    this.#endpoint = endpoint
  }

  /** Takes a run of payload, answers with the tokens that became complete in it. */
  push(buffer: Buffer, start: number, end: number): number {
    let tokens = 0
    let at = start
    while (at < end) {
      const boundary = endOfEvent(buffer, at, end, this.#partBytes > 0 ? this.#tail() : -1)
      if (boundary < 0) {
        this.#keep(buffer, at, end)
        break
      }
      if (this.#partBytes > 0) {
        this.#keep(buffer, at, boundary)
        const whole = this.#partBytes <= eventBytesMax ? Buffer.concat(this.#parts) : undefined
        this.#parts.length = 0
        this.#partBytes = 0
        tokens += whole ? this.#event(whole, 0, whole.length) : 1
      } else tokens += this.#event(buffer, at, boundary)
      this.isBetweenEvents = true
      at = boundary
    }
    this.#tokens += tokens
    return tokens
  }

  get usage(): Usage | undefined {
    const last = this.#usageEvent && readUsage(this.#usageEvent.toString('latin1'))
    const opening = this.#openingEvent && readUsage(this.#openingEvent.toString('latin1'))
    // SGLang's own route has no usage of all choices: each event speaks of one of them.
    if (last && this.#endpoint === 'generate' && last.outputTokens !== undefined && last.outputTokens < this.#tokens)
      return { ...last, outputTokens: undefined }
    if (!last || !opening) return last
    return {
      promptTokens: last.promptTokens ?? opening.promptTokens,
      outputTokens: last.outputTokens,
      cachedTokens: last.cachedTokens ?? opening.cachedTokens,
    }
  }

  #tail(): number {
    const last = this.#parts.at(-1)!
    return last[last.length - 1]!
  }

  #keep(buffer: Buffer, start: number, end: number): void {
    this.isBetweenEvents = false
    this.#partBytes += end - start
    if (this.#partBytes <= eventBytesMax) this.#parts.push(buffer.subarray(start, end))
    else {
      const last = Buffer.from(buffer.subarray(end - 1, end)) // enough to find the boundary
      this.#parts.length = 0
      this.#parts.push(last)
    }
  }

  #event(buffer: Buffer, start: number, end: number): number {
    this.events++
    const isNamed = this.#endpoint === 'anthropic_messages' || this.#endpoint === 'responses'
    return isNamed ? this.#namedEvent(buffer, start, end) : this.#dataEvent(buffer, start, end)
  }

  /** `data: {…}`: chat, completions, and SGLang's own route. */
  #dataEvent(buffer: Buffer, start: number, end: number): number {
    if (buffer[start] !== 0x64) return 0 // not `data`: a comment
    const brace = buffer[start + 6] === openBrace ? start + 6 : start + 5
    if (buffer[brace] !== openBrace) {
      if (has(buffer, doneMark, start, end)) this.hasFinished = true
      return 0
    }
    if (this.#endpoint === 'generate') {
      if (has(buffer, metaMark, start, end)) this.#usageEvent = Buffer.from(buffer.subarray(start, end))
      // Each has all of the text so far, and stands for a token: to look through it every time would take ever longer.
      if (this.#hasToken && buffer[brace + 2] !== letterE) return 1
    } else if (hasObject(buffer, usageKey, start, end)) {
      this.#usageEvent = Buffer.from(buffer.subarray(start, end))
      if (noChoices.test(this.#usageEvent.toString('latin1'))) return 0
    }
    if (this.#hasToken && buffer[brace + 2] !== letterE) return standsForToken(buffer, brace, end) ? 1 : 0 // an error has no other first key
    const text = buffer.toString('latin1', start, end)
    if (text.includes('"error"') && !text.includes('"choices"')) {
      this.hasError = true
      return 0
    }
    this.#hasToken ||= tokenPattern.test(text)
    return this.#hasToken ? 1 : 0
  }

  /** `event: name` before the data: Anthropic and Responses. */
  #namedEvent(buffer: Buffer, start: number, end: number): number {
    if (hasObject(buffer, usageKey, start, end)) {
      if (this.#endpoint === 'anthropic_messages') this.#openingEvent ??= this.#usageEvent
      this.#usageEvent = Buffer.from(buffer.subarray(start, end))
    }
    const text = buffer.toString('latin1', start, Math.min(end, start + 96))
    if (/event: ?(?:message_stop|response\.(?:completed|incomplete|failed))/.test(text)) this.hasFinished = true
    if (/event: ?error/.test(text)) this.hasError = true
    return /event: ?(?:content_block_delta|response\.[a-z_.]+\.delta)/.test(text) ? 1 : 0
  }
}

const space = 0x20
const colon = 0x3a
const letterE = 0x65
const openBrace = 0x7b
const usageKey = Buffer.from('"usage"')
const metaMark = Buffer.from('"meta_info":{')
const noChoices = /"choices" *: *\[ *\]/
const doneMark = Buffer.from('[DONE]')

/** This event carries usage and no token. */
export function isUsageAlone(event: Buffer): boolean {
  return hasObject(event, usageKey, 0, event.length) && noChoices.test(event.toString('latin1'))
}

/** An object stands behind the key, however the JSON is spaced; SGLang says `null` in every event. */
function hasObject(buffer: Buffer, key: Buffer, start: number, end: number): boolean {
  let at = find(buffer, key, start, end)
  if (at < 0) return false
  at += key.length
  while (buffer[at] === space) at++
  if (buffer[at] !== colon) return false
  at++
  while (buffer[at] === space) at++
  return buffer[at] === openBrace
}

function has(buffer: Buffer, mark: Buffer, start: number, end: number): boolean {
  return find(buffer, mark, start, end) >= 0
}

/** Where the mark stands, or -1. */
function find(buffer: Buffer, mark: Buffer, start: number, end: number): number {
  // A view costs an allocation, a search over a whole read of many events is quadratic: whichever is cheaper.
  if (buffer.length - end > 256) {
    const within = buffer.subarray(start, end).indexOf(mark)
    return within < 0 ? -1 : start + within
  }
  const at = buffer.indexOf(mark, start)
  return at + mark.length <= end ? at : -1
}

/** One past the empty line that ends an event, or -1. `before` is the byte in front of `start`, for a boundary that was cut. */
function endOfEvent(buffer: Buffer, start: number, end: number, before: number): number {
  let at = start
  if (before === lf) {
    if (buffer[at] === lf) return at + 1
    if (buffer[at] === cr && at + 1 < end && buffer[at + 1] === lf) return at + 2
  }
  for (;;) {
    at = buffer.indexOf(lf, at)
    if (at < 0 || at + 1 >= end) return -1
    if (buffer[at + 1] === lf) return at + 2
    if (buffer[at + 1] === cr && at + 2 < end && buffer[at + 2] === lf) return at + 3
    at++
  }
}
