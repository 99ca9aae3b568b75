/**
 * Conversations that were rendered before, so that one that goes on renders only its new messages. Keeps the turns of the
 * template's loops (`turns.ts`) beside the text that its owner keeps; finds the rendering that begins with the most of the
 * same messages by hashes that look at a few characters of each, since every turn is compared in full before its text is
 * taken. Bounded in bytes; the least recently used goes first.
 *
 * Trust, and look: some renderings are made a second time from nothing and compared. A template for which the two differ is
 * rendered in full from then on.
 */
import { LRUCache } from 'lru-cache'
import { merged } from '../../core/protocol/index.js'
import type { CacheCounts } from '../encode/ids-cache.js'
import type { Scope } from './run.js'
import { TemplateLimitError } from './run.js'
import { isSameData, sizeOfAll } from './same-data.js'
import type { RenderOptions, Template } from './template.js'
import type { LoopTurns } from './turns.js'
import { Turns } from './turns.js'
import type { Value } from './values.js'
import { isList } from './values.js'

export interface PrefixCounts extends CacheCounts {
  /** Loop turns, nearly all of them messages, whose text was taken over. */
  turns: number
  /** Renderings that were made twice, and templates that were found not to allow it. */
  compared: number
  refuted: number
}

/** A text that someone keeps, as UTF-8. */
interface KeptText {
  readonly bytes: Uint8Array
}

/** A rendered text: a head that is known already, and what comes after it. */
export interface Rendering<Text extends KeptText> {
  readonly head: { readonly text: Text; readonly length: number } | undefined
  readonly tail: string
  /** To be called with the whole text once it is kept, so that the next rendering can begin with it. */
  readonly keep: ((text: Text) => void) | undefined
}

interface Kept<Text extends KeptText> {
  readonly key: number
  readonly text: Text
  readonly bytes: Uint8Array
  /** As rendered; the turns hold the same objects. */
  readonly messages: readonly Value[]
  readonly loops: readonly (LoopTurns | undefined)[]
  readonly marks: readonly number[]
  readonly size: number
  /** What of it is the text's. */
  readonly textSize: number
}

export interface PrefixOptions<Text extends KeptText> {
  /** Bytes that a text holds; left out: those of its bytes. */
  readonly sizeOfText?: (text: Text) => number
  /** Of each template so many renderings are made twice, and after them one in so many. */
  readonly comparedFirst?: number
  readonly comparedEvery?: number
}

const comparedFirstDefault = 4
const comparedEveryDefault = 256
/** Longer heads are not compared: making a text of one takes the loop a millisecond for each megabyte or two. */
const comparedBytesMax = 1 << 20
/** Rendering a shorter conversation costs less than looking for it, unless there are tools to print. */
const messagesMin = 8
const bytesPerMark = 72

export class RenderedPrefixes<Text extends KeptText> {
  readonly counts: PrefixCounts = { hits: 0, misses: 0, evictions: 0, turns: 0, compared: 0, refuted: 0 }
  readonly #kept: LRUCache<number, Kept<Text>>
  readonly #byMark = new Map<number, number>()
  readonly #keys = new WeakMap<Text, number>()
  readonly #uses = new WeakMap<Template, number>()
  readonly #refuted = new WeakSet<Template>()
  readonly #seeds = new WeakMap<Template, number>()
  readonly #bytesMax: number
  readonly #sizeOfText: (text: Text) => number
  readonly #comparedFirst: number
  readonly #comparedEvery: number
  #nextKey = 1

  constructor(bytesMax: number, options: PrefixOptions<Text> = {}) {
    this.#bytesMax = bytesMax
    this.#sizeOfText = options.sizeOfText ?? (({ bytes }) => bytes.length)
    this.#comparedFirst = options.comparedFirst ?? comparedFirstDefault
    this.#comparedEvery = options.comparedEvery ?? comparedEveryDefault
    this.#kept = new LRUCache({
      maxSize: Math.max(1, Math.floor(bytesMax)),
      maxEntrySize: Math.max(1, Math.floor(bytesMax / 2)),
      sizeCalculation: ({ size }) => size,
      dispose: (kept, key, reason) => this.#forget(kept, key, reason),
      noDisposeOnSet: true,
    })
  }

  get byteLength(): number {
    return this.#kept.calculatedSize
  }

  /** Of all that is kept. */
  get markCount(): number {
    return this.#byMark.size
  }

  /** What `template.render` answers and throws, in two parts. */
  render(
    template: Template,
    variables: Readonly<Record<string, Value>>,
    options: RenderOptions,
    constants?: Scope,
  ): Rendering<Text> {
    const { messages, tools } = variables
    if (!isList(messages) || (messages.length < messagesMin && !tools) || !this.#allows(template))
      return whole(template.render(variables, options, constants))
    const marks = marksOf(messages, this.#seedOf(template))
    const known = this.#find(marks)
    const turns = new Turns(known)
    const shared = known ? takeEqual(messages, known.messages) : messages
    const startedAt = options.now()
    const tail = template.render(merged(variables, { messages: shared }), options, constants, turns)
    this.#count(turns.reused)
    const head = known && turns.head > 0 ? { text: known.text, length: turns.head } : undefined
    const rendering = { head, tail, keep: (text: Text) => this.#keep(text, shared, turns, marks, known) }
    if (turns.reused === 0 || turns.head > comparedBytesMax || !this.#isDue(template)) return rendering
    const deadlineMs = options.limits.deadlineMs - (options.now() - startedAt) // both together hold the loop
    const limited = { ...options, limits: { ...options.limits, deadlineMs } }
    const plain = deadlineMs > 0 ? this.#plainly(() => template.render(variables, limited, constants)) : undefined
    if (plain === undefined || plain === wholeText(rendering)) return rendering
    this.counts.refuted++
    this.#refuted.add(template)
    this.clear()
    return whole(plain)
  }

  /** A text holds more than when it was kept: its owner adds to it. */
  measure(text: Text): void {
    const key = this.#keys.get(text)
    const kept = key === undefined ? undefined : this.#kept.peek(key)
    if (!kept) return
    const textSize = this.#sizeOfText(text)
    this.#kept.set(kept.key, { ...kept, textSize, size: kept.size - kept.textSize + textSize })
  }

  clear(): void {
    this.#kept.clear()
    this.#byMark.clear()
  }

  #allows(template: Template): boolean {
    return this.#bytesMax > 0 && template.replayedLoops > 0 && !this.#refuted.has(template)
  }

  #count(reused: number): void {
    this.counts.turns += reused
    if (reused > 0) this.counts.hits++
    else this.counts.misses++
  }

  #isDue(template: Template): boolean {
    const uses = this.#uses.get(template) ?? 0
    this.#uses.set(template, uses + 1)
    return uses < this.#comparedFirst || uses % this.#comparedEvery === this.#comparedEvery - 1
  }

  /** Rendered from nothing; undefined when that alone is more work than is allowed here. */
  #plainly(render: () => string): string | undefined {
    try {
      const plain = render()
      this.counts.compared++
      return plain
    } catch (error) {
      if (error instanceof TemplateLimitError) return undefined
      throw error
    }
  }

  #find(marks: readonly number[]): Kept<Text> | undefined {
    for (let index = marks.length - 1; index >= 0; index--) {
      const key = this.#byMark.get(marks[index]!)
      const kept = key === undefined ? undefined : this.#kept.get(key)
      if (kept) return kept
    }
    return undefined
  }

  #keep(
    text: Text,
    messages: readonly Value[],
    { made, bytes: turnBytes }: Turns,
    marks: readonly number[],
    known: Kept<Text> | undefined,
  ): void {
    const { bytes } = text
    const extra = sizeOfAll(notIn(made, messages))
    if (extra === undefined) return // what cannot be measured and compared is not kept
    const textSize = this.#sizeOfText(text)
    const size = textSize + turnBytes + extra + marks.length * bytesPerMark + 512
    // One that goes on takes the place of the one before.
    if (known && marks[known.marks.length - 1] === known.marks.at(-1)) this.#kept.delete(known.key)
    const key = this.#nextKey++
    for (const mark of marks) this.#byMark.set(mark, key)
    const kept = { key, text, bytes, messages, loops: made, marks, size, textSize }
    this.#keys.set(text, key)
    this.#kept.set(key, kept)
    if (!this.#kept.has(key)) this.#forget(kept, key, 'refused') // too large to keep
  }

  #forget(kept: Kept<Text>, key: number, reason: string): void {
    // `set`: its text has become too large.
    if (reason === 'evict' || reason === 'set') this.counts.evictions++
    for (const mark of kept.marks) if (this.#byMark.get(mark) === key) this.#byMark.delete(mark)
  }

  #seedOf(template: Template): number {
    let seed = this.#seeds.get(template)
    if (seed === undefined) this.#seeds.set(template, (seed = this.#nextKey++))
    return seed
  }
}

/** A rendering as one text. */
export function wholeText({ head, tail }: Pick<Rendering<KeptText>, 'head' | 'tail'>): string {
  if (!head) return tail
  const { buffer, byteOffset } = head.text.bytes
  return Buffer.from(buffer, byteOffset, head.length).toString('utf8') + tail
}

function whole<Text extends KeptText>(tail: string): Rendering<Text> {
  return { head: undefined, tail, keep: undefined }
}

/** Messages that no turn holds. */
function notIn(loops: readonly (LoopTurns | undefined)[], messages: readonly Value[]): Value[] {
  const held = new Set<Value>()
  for (const loop of loops) for (const { item } of loop?.turns ?? []) held.add(item)
  return messages.filter((message) => !held.has(message))
}

/** The messages, with those that equal the known ones replaced by them: then loops need not compare them again. */
function takeEqual(messages: readonly Value[], known: readonly Value[]): readonly Value[] {
  return messages.map((message, index) => {
    const other = known[index]
    return other !== undefined && isSameData(message, other) ? other : message
  })
}

/** One number for each length of the conversation, from a few characters of every message. */
function marksOf(messages: readonly Value[], seed: number): number[] {
  const marks: number[] = []
  let low = Math.imul(seed, 0x9e37_79b1)
  let high = 0x85eb_ca6b
  for (const message of messages) {
    const { role, content } = (message ?? {}) as Readonly<Record<string, Value>>
    low = mixText(mixText(low, role), content)
    high = (Math.imul(high, 31) + low) | 0
    marks.push((high >>> 11) * 2 ** 32 + (low >>> 0))
  }
  return marks
}

const samples = 3

function mixText(hash: number, value: Value): number {
  if (typeof value !== 'string') return mix(hash, isList(value) ? value.length + 1 : 0)
  let mixed = mix(hash, value.length)
  const stride = Math.max(1, Math.floor(value.length / samples))
  for (let at = 0; at < value.length; at += stride) mixed = mix(mixed, value.charCodeAt(at))
  return mixed
}

function mix(hash: number, value: number): number {
  const mixed = Math.imul(hash ^ value, 0x9e37_79b1)
  return mixed ^ (mixed >>> 15)
}
