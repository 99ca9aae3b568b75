/**
 * Added tokens at which a text can be cut, so that an engine need encode only what comes after:
 *
 *   tokens(A + S + B)  =  tokens(A + S) without its last id, then tokens(S + B)
 *
 * Tokenizers look for added tokens in the raw text before anything else and encode what lies between them piece by piece, so
 * this holds for every S that is found in all three texts. White space that S takes from its left lies in A + S, from its right in S + B.
 * What could hide S from the tokenizer in one text and not in another is ruled out for each S:
 *
 *   - another added token over the same characters: by comparing spellings;
 *   - letters beside it (`single_word`), a normaliser that sees it together with its neighbours (`normalized`): by asking the
 *     engine, once, for a text in which S stands in such places. S begins and ends with a bracket, to which no letter or accent
 *     but U+0338 can be joined, and that one is asked for.
 */
import { Turn } from '../next-turn.js'
import type { ToldToken } from './tokenizer-info.js'

export interface CutToken extends ToldToken {
  readonly bytes: Uint8Array
}

/** Where cut tokens stand in a text, ascending. */
type Occurrences = readonly (readonly [at: number, id: number])[]

const candidatesMax = 32
/** Of new text, for one answer: looking at more would hold the loop. */
const scannedMax = 256 << 10
const marksCount = 4096
const bracketed = /^[<[].+[>\]]$/su
const brackets = [0x3c, 0x5b] // "<" and "["

/**
 * The told tokens that `mentions` (templates, names of special tokens) has and whose spelling keeps them apart from all others. A
 * tokenizer may have thousands (Gemma: 6,400): others have their turn of the loop meanwhile.
 */
export async function cutCandidates(added: readonly ToldToken[], mentions: readonly string[]): Promise<CutToken[]> {
  const turn = new Turn()
  const candidates: CutToken[] = []
  for (const it of added) {
    if (candidates.length === candidatesMax) break
    if (turn.isOver) await turn.next()
    if (!bracketed.test(it.text) || !mentions.some((mention) => mention.includes(it.text))) continue
    if (await overlapsAny(it, added, turn)) continue
    candidates.push({ ...it, bytes: new TextEncoder().encode(it.text) })
  }
  return candidates
}

async function overlapsAny(it: ToldToken, added: readonly ToldToken[], turn: Turn): Promise<boolean> {
  for (const other of added) {
    if (turn.isOver) await turn.next()
    if (mayOverlap(it, other)) return true
  }
  return false
}

/** Whether characters of one can be characters of the other, in any text. */
function mayOverlap(it: ToldToken, other: ToldToken): boolean {
  return it.id === other.id
    ? meets(it.text, it.text, 1)
    : meets(it.text, other.text, 0) || meets(other.text, it.text, 0)
}

/** Whether a `second` can begin inside of `first`, at `from` or later. */
function meets(first: string, second: string, from: number): boolean {
  for (let at = first.indexOf(second[0]!, from); at >= 0; at = first.indexOf(second[0]!, at + 1)) {
    const length = Math.min(first.length - at, second.length)
    if (first.startsWith(second.slice(0, length), at)) return true
  }
  return false
}

/** A text in which the token stands alone, twice in a row, between letters, before a combining mark and behind a space. */
export function probeText({ text }: ToldToken): string {
  return `${text}${text}a${text}a${text}\u0338${text} ${text}`
}

/** Whether the ids of `probeText` show the token in every place. */
export function isFoundEverywhere({ id }: ToldToken, ids: Uint32Array): boolean {
  const isFirst = ids[0] === id && ids[1] === id
  return isFirst && ids.at(-1) === id && ids.reduce((sum, it) => sum + Number(it === id), 0) === 6
}

export class CutTokens {
  readonly #byStart = new Map<number, CutToken[]>()
  readonly #lengths: ReadonlyMap<number, number>
  /** Which ids may be among them: a million are looked through in a millisecond and not in fifteen. */
  readonly #marks: Uint8Array = new Uint8Array(marksCount)

  constructor(tokens: readonly CutToken[]) {
    for (const token of tokens) {
      const start = startOf(token.bytes, 0)
      this.#byStart.set(start, [...(this.#byStart.get(start) ?? []), token])
    }
    this.#lengths = new Map(tokens.map(({ id, bytes }) => [id, bytes.length]))
    for (const { id } of tokens) this.#marks[id % marksCount] = 1
  }

  /** Bytes of the token that stands at a cut. */
  lengthOf(id: number): number {
    return this.#lengths.get(id)!
  }

  /** Those in `bytes`, as far as is looked at. */
  #find(bytes: Uint8Array): Occurrences {
    const end = Math.min(bytes.length, scannedMax)
    const found: (readonly [number, number])[] = []
    for (const first of brackets) {
      for (let at = bytes.indexOf(first); at >= 0 && at < end; at = bytes.indexOf(first, at + 1)) {
        const token = this.#byStart.get(startOf(bytes, at))?.find((it) => isAt(it.bytes, bytes, at))
        if (token) found.push([at, token.id])
      }
    }
    return found.sort(([a], [b]) => a - b)
  }

  /**
   * Where a text with these ids may be cut: pairs of a byte offset and the number of ids before it, see `Boundaries`. Nothing when
   * text and ids do not have the same tokens in the same order.
   */
  align(bytes: Uint8Array, ids: Uint32Array): Uint32Array | undefined {
    const found = this.#find(bytes)
    const isAll = bytes.length <= scannedMax
    const pairs: number[] = []
    let next = 0
    for (let index = 0; index < ids.length; index++) {
      const id = ids[index]!
      if (this.#marks[id % marksCount] === 0 || !this.#lengths.has(id)) continue
      const occurrence = found[next++]
      if (!occurrence && !isAll) break // tokens of what was not looked at
      if (occurrence?.[1] !== id) return undefined
      if (occurrence[0] > 0) pairs.push(occurrence[0], index) // a cut at 0 cuts nothing off
    }
    return next >= found.length ? Uint32Array.from(pairs) : undefined
  }
}

function startOf(bytes: Uint8Array, at: number): number {
  return bytes[at]! * 65_536 + (bytes[at + 1] ?? 0) * 256 + (bytes[at + 2] ?? 0)
}

function isAt(token: Uint8Array, bytes: Uint8Array, at: number): boolean {
  for (let index = 0; index < token.length; index++) if (token[index] !== bytes[at + index]) return false
  return true
}
