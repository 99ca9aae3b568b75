/**
 * Texts that were encoded before, to reuse the tokens of what a new text shares with one of them from the start.
 *
 * A stored text is indexed by hashes of its leading bytes at fixed lengths. The longest known one leads to a candidate, whose
 * bytes are then compared, so a hash only ever costs time. Bounded in bytes; the least recently used text goes first.
 */
import { LRUCache } from 'lru-cache'
import type { BlockHashes } from '../../core/hashing/index.js'
import type { CacheCounts } from '../encode/ids-cache.js'
import { nextTurn, sliceIds } from '../next-turn.js'

/** A stored text. Its arrays are never written again. */
export interface RememberedText {
  readonly key: number
  readonly bytes: Uint8Array
  /** Ids, with the special tokens that were put around them. */
  readonly ids: Uint32Array
  /** Special tokens before the first id of the text. */
  readonly specialsBefore: number
  readonly specialsAfter: number
  /** Where the text may be cut, and how many ids of the text come before: pairs, see `Boundaries`. */
  readonly cuts: Uint32Array
  readonly marks: readonly number[]
  /** Block hashes that were asked for, few. */
  readonly hashes: BlockHashes[]
}

export interface Match {
  readonly text: RememberedText
  /** Leading bytes that both texts share. */
  readonly common: number
}

/** What `find` found out; `add` takes the marks, so that a text is hashed once. */
export interface Lookup {
  readonly marks: readonly number[]
  readonly match: Match | undefined
}

export type NewText = Omit<RememberedText, 'key' | 'marks' | 'hashes'>

/** Shorter texts are encoded faster than found. */
const rememberedBytesMin = 128
const wholeMarkBytes = 2048
/** A multiple of the above, so that a slice goes on where the mark before ends. */
const sliceBytes = sliceIds * Uint32Array.BYTES_PER_ELEMENT
const hashesPerTextMax = 2
const bytesPerMark = 72
/** What the objects of a text and of its hashes hold beside their bytes, as measured: most texts are short, and this is most of them. */
const [bytesPerText, bytesPerHashes] = [1300, 600]

export class RememberedTexts {
  readonly counts: CacheCounts = { hits: 0, misses: 0, evictions: 0 }
  /** Held, since the cache measures anew only what is another object: see `addHashes`. */
  readonly #texts: LRUCache<number, { readonly text: RememberedText }>
  readonly #byMark = new Map<number, number>()
  readonly #textBytesMax: number
  readonly #onGrown: ((text: RememberedText) => void) | undefined
  #nextKey = 1

  /** `onGrown`: hashes were added to a text, which others may keep, too. */
  constructor(bytesMax: number, onGrown?: (text: RememberedText) => void) {
    this.#onGrown = onGrown
    this.#textBytesMax = Math.max(1, Math.floor(bytesMax / 2))
    this.#texts = new LRUCache({
      maxSize: Math.max(1, Math.floor(bytesMax)),
      maxEntrySize: this.#textBytesMax,
      sizeCalculation: ({ text }) => sizeOfText(text),
      dispose: ({ text }, key, reason) => this.#forget(text, key, reason),
      noDisposeOnSet: true,
    })
  }

  get byteLength(): number {
    return this.#texts.calculatedSize
  }

  get count(): number {
    return this.#texts.size
  }

  /** Of all of them: no more than the texts have. */
  get markCount(): number {
    return this.#byMark.size
  }

  /** The stored text that shares the most leading bytes. Texts with special tokens around them and others do not meet: their ids are counted differently. */
  find(bytes: Uint8Array, isWrapped: boolean): Lookup {
    return this.#findBy(marksOf(bytes, isWrapped), bytes)
  }

  /** `find` for a text of any length: others have their turn of the loop meanwhile. */
  async findInSlices(bytes: Uint8Array, isWrapped: boolean): Promise<Lookup> {
    let marks: readonly number[] = []
    let read = 0
    for (; read + sliceBytes < bytes.length; read += sliceBytes) {
      marks = marksOf(bytes.subarray(0, read + sliceBytes), isWrapped, marks, read)
      await nextTurn()
    }
    return this.#findBy(marksOf(bytes, isWrapped, marks, read), bytes)
  }

  #findBy(marks: readonly number[], bytes: Uint8Array): Lookup {
    for (let index = marks.length - 1; index >= 0; index--) {
      const key = this.#byMark.get(marks[index]!)
      if (key === undefined) continue
      const text = this.#texts.get(key)?.text
      if (text === undefined || !sharesBytes(text.bytes, bytes, markLength(index))) continue
      this.counts.hits++
      return { marks, match: { text, common: commonFrom(text.bytes, bytes, markLength(index)) } }
    }
    this.counts.misses++
    return { marks, match: undefined }
  }

  /** `find`, where it is known already that the text begins with `common` bytes of this one. */
  findAfter(text: RememberedText, bytes: Uint8Array, common: number): Lookup {
    this.counts.hits++
    this.#texts.get(text.key) // it was used
    const marks = marksOf(bytes, hasSpecials(text), text.marks, common)
    return { marks, match: { text, common: commonFrom(text.bytes, bytes, common) } }
  }

  /** Stores a text; its arrays must not change afterwards. `lookup` is what was found for it; a text that it continues is replaced. */
  add(text: NewText, { marks, match: replaced }: Lookup): RememberedText {
    const stored: RememberedText = { ...text, key: this.#nextKey++, marks, hashes: [] }
    // One that is too large to be kept must not take the place of others, nor their marks.
    if (text.bytes.length < rememberedBytesMin || sizeOfText(stored) > this.#textBytesMax) return stored
    if (replaced && replaced.common + wholeMarkBytes / 4 > replaced.text.bytes.length) {
      this.#texts.delete(replaced.text.key)
    }
    for (const mark of marks) this.#byMark.set(mark, stored.key)
    this.#texts.set(stored.key, { text: stored })
    return stored
  }

  /** Keeps hashes with their text, and counts their bytes. */
  addHashes(text: RememberedText, hashes: BlockHashes): void {
    if (text.hashes.length === hashesPerTextMax) text.hashes.shift()
    text.hashes.push(hashes)
    if (this.#texts.peek(text.key)?.text === text) this.#texts.set(text.key, { text })
    this.#onGrown?.(text)
  }

  clear(): void {
    this.#texts.clear()
  }

  #forget(text: RememberedText, key: number, reason: string): void {
    // `set`: its hashes have made it too large.
    if (reason === 'evict' || reason === 'set') this.counts.evictions++
    for (const mark of text.marks) if (this.#byMark.get(mark) === key) this.#byMark.delete(mark)
  }
}

/** Bytes that it holds in memory, about. */
export function sizeOfText(text: RememberedText): number {
  const hashed = text.hashes.reduce(
    (sum, it) => sum + it.local.byteLength + it.sequence.byteLength + bytesPerHashes,
    bytesPerText,
  )
  return text.bytes.length + text.ids.byteLength + text.cuts.byteLength + text.marks.length * bytesPerMark + hashed
}

/** Whether special tokens stand around its ids. */
export function hasSpecials({ specialsBefore, specialsAfter }: RememberedText): boolean {
  return specialsBefore + specialsAfter > 0
}

/** Lengths at which prefixes are hashed: 128, 256, 512, 1024, then every 2048 bytes. */
function markLength(index: number): number {
  return index < 4 ? rememberedBytesMin << index : (index - 3) * wholeMarkBytes
}

/** `known` are the marks of a text that shares its first `common` bytes: those need not be read again. */
function marksOf(
  bytes: Uint8Array,
  isWrapped: boolean,
  known: readonly number[] = [],
  common: number = 0,
): readonly number[] {
  const marks: number[] = []
  while (marks.length < known.length && markLength(marks.length) <= common) marks.push(known[marks.length]!)
  const last = marks.at(-1)
  const words = new Uint32Array(bytes.buffer, bytes.byteOffset, bytes.length >>> 2) // texts begin at a multiple of 4
  // A mark is the whole state, 32 and 21 bits of it, so that the next one can start from it.
  let low = last === undefined ? (isWrapped ? 0x9e37_79b9 : 0x7f4a_7c15) : last | 0
  let high = last === undefined ? 0x85eb_ca6b : Math.floor(last / 2 ** 32)
  let word = last === undefined ? 0 : markLength(marks.length - 1) >>> 2
  for (let index = marks.length; markLength(index) <= bytes.length; index++) {
    const end = markLength(index) >>> 2
    for (; word < end; word++) {
      low = Math.imul(low ^ words[word]!, 0x9e37_79b1)
      low ^= low >>> 15
      high = (Math.imul(high, 31) + low) | 0
    }
    high >>>= 11
    marks.push(high * 2 ** 32 + (low >>> 0))
  }
  return marks
}

function sharesBytes(a: Uint8Array, b: Uint8Array, length: number): boolean {
  if (a.length < length || b.length < length) return false
  if (length > 1024)
    return Buffer.from(a.buffer, a.byteOffset, length).equals(Buffer.from(b.buffer, b.byteOffset, length))
  let index = 0
  while (index < length && a[index] === b[index]) index++
  return index === length
}

/** How far two texts agree, given that they do up to `from`. */
function commonFrom(a: Uint8Array, b: Uint8Array, from: number): number {
  const end = Math.min(a.length, b.length)
  while (from < end && a[from] === b[from]) from++
  return from
}
