/**
 * Prompts of which an engine is asked only the new end. Where it tells its chat template and its added tokens, the text is rendered
 * here; the longest remembered text that it begins with is cut at the last added token (`cut-tokens.ts`), and what follows from
 * that token on is all that the engine has to encode.
 *
 * Trust, and look: some prompts are asked for as a whole, too. One difference, in the template or in the tokens, and nothing is
 * pieced together any more for this model, and what was is forgotten. Remembered texts are bounded in bytes, the least recently used
 * goes first.
 */
import { buildPrompt } from '../chat/build-prompt.js'
import { isMuchToBuild } from '../chat/exact-body.js'
import type { PromptRules } from '../chat/build-prompt.js'
import type { ChatTemplates, ChosenTemplate } from '../chat/chat-template.js'
import { renderChat } from '../chat/chat-template.js'
import { WatchedClock } from '../template/strftime.js'
import type { TemplateHabits } from '../chat/converted.js'
import type { Body, ChatPrompt, Route, TextPrompt } from '../chat/request.js'
import { LoadOnlyError } from '../chat/request.js'
import { joinCuts, lastCut } from '../encode/boundaries.js'
import type { CacheCounts } from '../encode/ids-cache.js'
import type { Lookup, Match } from '../remember/remembered-texts.js'
import { RememberedTexts } from '../remember/remembered-texts.js'
import type { Exactness } from '../tokens.js'
import type { CutTokens } from './cut-tokens.js'

export interface PieceCounts extends CacheCounts {
  /** Prompts of which only the end was asked for, or nothing. */
  continued: number
  /** Prompts with a text of ours that were asked for as a whole: no remembered text leads to a cut in them. */
  whole: number
  /** Continued prompts that were asked for as a whole, too, and those that differed: after one, nothing is continued. */
  checked: number
  refuted: number
  /** Bytes of text that were asked for, and that were not because they were known. */
  askedBytes: number
  knownBytes: number
}

/** The special tokens that the tokenizer puts around a text. */
export interface Wrapping {
  readonly before: Uint32Array
  readonly after: Uint32Array
}

export interface PiecesParts {
  readonly cutTokens: CutTokens
  readonly templates: ChatTemplates
  readonly rules: PromptRules
  /** Undefined: texts with special tokens around them are not continued. */
  readonly wrapping: Wrapping | undefined
  readonly bytesMax: number
  /** Of each kind of request so many continued prompts are checked, and after them one in so many. */
  readonly checkedFirst?: number
  readonly checkedEvery?: number
  /** What takes longer to render is left to the engine. */
  readonly renderMsMax?: number | undefined
}

/** The engine's ids of a text, without special tokens around it. */
export type AskIds = (text: string) => Promise<Uint32Array>

/** The text of a prompt, and how it is encoded. */
export interface PieceText {
  readonly text: string
  readonly isWrapped: boolean
  readonly isProven: boolean
  /** Requests that go another way through the engine's code are checked apart. */
  readonly kind: string
}

interface Ids {
  readonly ids: Uint32Array
  readonly exactness: Exactness
}

const checkedFirstDefault = 4
const checkedEveryDefault = 64
/** As where we have the model's files: it is the same loop. */
const [stepsMax, outputMax, renderMsMaxDefault] = [20_000, 2 << 20, 4]
const nothing: Wrapping = { before: new Uint32Array(0), after: new Uint32Array(0) }

export class EnginePieces {
  readonly #parts: PiecesParts
  readonly #texts: RememberedTexts
  readonly #counted = { continued: 0, whole: 0, checked: 0, refuted: 0, askedBytes: 0, knownBytes: 0 }
  readonly #uses = new Map<string, number>()

  constructor(parts: PiecesParts) {
    this.#parts = parts
    this.#texts = new RememberedTexts(parts.bytesMax)
  }

  get counts(): PieceCounts {
    return { ...this.#texts.counts, ...this.#counted }
  }

  get habits(): TemplateHabits {
    return this.#choose(false).habits
  }

  get byteLength(): number {
    return this.#texts.byteLength
  }

  get isRefuted(): boolean {
    return this.#counted.refuted > 0
  }

  /** The text that the engine makes of a request; undefined where that is for the engine to say. */
  textOf(route: Route, body: Body): PieceText | undefined {
    if (this.isRefuted || isMuchToBuild(route, body)) return undefined
    try {
      const prompt = buildPrompt(route, body, this.#parts.rules, (hasTools) => this.#choose(hasTools))
      if (prompt.kind === 'ids' || prompt.truncation) return undefined
      const clock = new WatchedClock()
      const text = prompt.kind === 'text' ? onlyText(prompt) : this.#render(prompt, clock)
      const isWrapped = prompt.addSpecialTokens
      if (text === undefined || !text.isWellFormed() || (isWrapped && !this.#parts.wrapping)) return undefined
      return { text, isWrapped, isProven: prompt.isProven && !clock.isRead, kind: kindOf(route, body) }
    } catch {
      return undefined // media, a template that raises, a malformed body: the engine answers those itself
    }
  }

  /** The ids of a text; undefined where its pieces differ from the whole. `askWhole` asks for the request as it is; both reject as it does. */
  async idsOf(prompt: PieceText, askWhole: () => Promise<Ids>, askTail: AskIds): Promise<Ids | undefined> {
    const bytes = Uint8Array.from(new TextEncoder().encode(prompt.text))
    const lookup = this.#texts.find(bytes, prompt.isWrapped)
    const { match } = lookup
    const cut = match ? this.#lastCut(match) : -1
    const isKnown = match?.common === bytes.length && match.text.bytes.length === bytes.length
    if (cut < 0 && !isKnown) {
      this.#counted.whole++
      const said = await askWhole()
      if (!this.isRefuted) this.#remember(bytes, prompt, said.ids, lookup, -1)
      return said
    }
    const isDue = this.#isDue(prompt.kind)
    const [ids, said] = await Promise.all([
      isKnown ? match.text.ids : this.#continue(bytes, prompt, lookup, cut, askTail),
      isDue ? askWhole() : undefined,
    ])
    if (said) this.#counted.checked++
    if (!ids || (said && !isSame(ids, said.ids))) this.#refute()
    if (!ids || this.isRefuted) return undefined
    this.#counted.continued++
    if (!isKnown) this.#remember(bytes, prompt, ids, lookup, cut)
    return said ?? { ids, exactness: prompt.isProven ? 'proven' : 'expected' }
  }

  /** The last cut whose token both texts have. */
  #lastCut({ text, common }: Match): number {
    let cut = lastCut(text.cuts, common)
    while (cut >= 0) {
      const id = text.ids[text.specialsBefore + text.cuts[cut * 2 + 1]!]!
      if (text.cuts[cut * 2]! + this.#parts.cutTokens.lengthOf(id) <= common) break
      cut--
    }
    return cut
  }

  /** Undefined where the engine does not see the token that its text begins with. */
  async #continue(
    bytes: Uint8Array,
    { isWrapped }: PieceText,
    { match }: Lookup,
    cut: number,
    askTail: AskIds,
  ): Promise<Uint32Array | undefined> {
    const { text } = match!
    const [at, tokens] = [text.cuts[cut * 2]!, text.cuts[cut * 2 + 1]!]
    const { before, after } = isWrapped ? this.#parts.wrapping! : nothing
    this.#counted.askedBytes += bytes.length - at
    this.#counted.knownBytes += at
    const tail = await askTail(Buffer.from(bytes.buffer, at, bytes.length - at).toString('utf8'))
    const head = before.length + tokens
    if (tail[0] !== text.ids[head]) return undefined
    const ids = new Uint32Array(head + tail.length + after.length)
    ids.set(text.ids.subarray(0, head))
    ids.set(tail, head)
    ids.set(after, head + tail.length)
    return ids
  }

  #remember(bytes: Uint8Array, { isWrapped }: PieceText, ids: Uint32Array, lookup: Lookup, cut: number): void {
    const { before, after } = isWrapped ? this.#parts.wrapping! : nothing
    const isAround = isSame(ids.subarray(0, before.length), before)
    if (!isAround || !isSame(ids.subarray(ids.length - after.length), after)) return
    const known = cut < 0 ? noCuts : lookup.match!.text.cuts
    const [from, tokens] = cut < 0 ? [0, 0] : [known[cut * 2]!, known[cut * 2 + 1]!]
    const rest = ids.subarray(before.length + tokens, ids.length - after.length)
    const pairs = this.#parts.cutTokens.align(bytes.subarray(from), rest)
    if (!pairs) return
    const cuts = joinCuts(known, cut, pairs, pairs.length / 2, from)
    this.#texts.add({ bytes, ids, specialsBefore: before.length, specialsAfter: after.length, cuts }, lookup)
  }

  #refute(): void {
    this.#counted.refuted++
    this.#texts.clear()
  }

  #isDue(kind: string): boolean {
    const { checkedFirst = checkedFirstDefault, checkedEvery = checkedEveryDefault } = this.#parts
    const uses = this.#uses.get(kind) ?? 0
    this.#uses.set(kind, uses + 1)
    return uses < checkedFirst || uses % checkedEvery === checkedEvery - 1
  }

  #render(prompt: ChatPrompt, { date }: WatchedClock): string | undefined {
    if (prompt.suffix !== undefined) return undefined
    const { renderMsMax: deadlineMs = renderMsMaxDefault } = this.#parts
    const options = { limits: { stepsMax, outputMax, deadlineMs }, now: () => performance.now(), date }
    return renderChat(prompt.chosen, prompt.render, options)
  }

  #choose(hasTools: boolean): ChosenTemplate {
    const chosen = this.#parts.templates.choose(hasTools)
    if (chosen) return chosen
    throw new LoadOnlyError('no-template', 'the engine tells no chat template')
  }
}

const noCuts: Uint32Array = new Uint32Array(0)

function onlyText({ texts }: TextPrompt): string | undefined {
  return texts.length === 1 ? texts[0] : undefined
}

function kindOf(route: Route, body: Body): string {
  const telling = ['tools', 'chat_template_kwargs', 'reasoning_effort', 'continue_final_message', 'documents']
  return [route, ...telling.filter((name) => body[name])].join()
}

function isSame(a: Uint32Array, b: Uint32Array): boolean {
  const [left, right] = [a, b].map((it) => Buffer.from(it.buffer, it.byteOffset, it.byteLength)) as [Buffer, Buffer]
  return left.equals(right) // in one comparison of memory: there may be a million
}
