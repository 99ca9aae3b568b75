/**
 * A snapshot: the trie as runs of at most 64 blocks, parents first, with the sets of ranks that hold them. It says
 * nothing of chunks, tables or ages, so every implementation reads what any other wrote.
 *
 *   header  [ magic | version | words in all | checksum | runs | sets | aliases | blocks ]       u32 each, little-endian
 *   set     [ word count | bits ... ]                                                            32 ranks per word
 *   run     [ parent run + 1 | parent index | blocks | spans ] [ local 2 .. ] [ external 2 .. ] [ length | holders ] ..
 *   alias   [ rank | run | index | - | external 2 ]
 *
 * holders: 0 nobody, 2^31 + rank one rank, else set number + 1. These hold the blocks by their own external hashes; an
 * alias adds a rank that calls a block by another one.
 */
import { WarmrouteError } from '../protocol/index.js'
import { ranksMax } from './event-batch.js'

const magic = 0x58495257 // "WRIX"
const version = 1
const headerWords = 8
export const runBlocksMax = 64
export const singleHolder = 0x8000_0000

export class SnapshotWriter {
  #words: Uint32Array
  #at = headerWords
  #runs = 0
  #sets = 0
  #aliases = 0
  #blocks = 0

  constructor(wordsExpected = 1 << 16) {
    this.#words = new Uint32Array(wordsExpected + headerWords)
  }

  /** Before any run. Answers what a span says of it. */
  set(bits: Uint32Array): number {
    this.#room(1 + bits.length)
    this.#words[this.#at++] = bits.length
    this.#words.set(bits, this.#at)
    this.#at += bits.length
    return ++this.#sets
  }

  /** `spans` pairs lengths and holders. Answers the run's number; its parent's run came before. */
  run(
    parentRun: number,
    parentIndex: number,
    local: Uint32Array,
    external: Uint32Array,
    spans: readonly number[],
  ): number {
    const blocks = local.length >>> 1
    this.#room(4 + 4 * blocks + spans.length)
    const words = this.#words
    words[this.#at++] = parentRun + 1
    words[this.#at++] = parentIndex
    words[this.#at++] = blocks
    words[this.#at++] = spans.length >>> 1
    words.set(local, this.#at)
    words.set(external, this.#at + 2 * blocks)
    this.#at += 4 * blocks
    for (const word of spans) words[this.#at++] = word
    this.#blocks += blocks
    return this.#runs++
  }

  /** After all runs. */
  alias(rank: number, run: number, index: number, externalLo: number, externalHi: number): void {
    this.#room(6)
    for (const word of [rank, run, index, 0, externalLo, externalHi]) this.#words[this.#at++] = word
    this.#aliases++
  }

  finish(): Uint8Array {
    const words = this.#words
    words.set([magic, version, this.#at, 0, this.#runs, this.#sets, this.#aliases, this.#blocks])
    words[3] = checksum(words, this.#at)
    return new Uint8Array(words.buffer, 0, 4 * this.#at)
  }

  #room(wanted: number): void {
    if (this.#at + wanted <= this.#words.length) return
    const wider = new Uint32Array(Math.max(this.#at + wanted, Math.ceil(1.5 * this.#words.length)))
    wider.set(this.#words.subarray(0, this.#at))
    this.#words = wider
  }
}

/**
 * What a reader of a snapshot is told, in the order of the file. Each answers false when it cannot go on. Places (`at`) are
 * positions in the snapshot's words: there are too many runs to make views of them.
 */
export interface SnapshotSink {
  set(bits: Uint32Array): boolean
  /** Local hashes lie at `at`, external ones right behind them. */
  run(parentRun: number, parentIndex: number, blocks: number, at: number): boolean
  /** Blocks [from, to) of the run that came last. */
  span(from: number, to: number, holders: number): boolean
  /** The external hash lies at `at`. */
  alias(rank: number, run: number, index: number, at: number): boolean
}

/** Tells the sink what an opened snapshot says. Throws `WR_SNAPSHOT_INVALID`. */
export function readSnapshot(words: Uint32Array, sink: SnapshotSink): void {
  const [, , , , runs = 0, sets = 0, aliases = 0] = words
  const runLengths = new Uint8Array(runs)
  let at = headerWords
  /** Where the next `count` words lie. */
  const take = (count: number): number => {
    if (at + count > words.length) refuse('a part reaches past its end')
    at += count
    return at - count
  }
  for (let set = 0; set < sets; set++) {
    const length = words[take(1)]!
    const from = take(length)
    must(length > 0 && length <= ranksMax / 32, 'a set of ranks is out of range')
    must(sink.set(words.subarray(from, from + length)), 'a set of ranks is out of range')
  }
  for (let run = 0; run < runs; run++) {
    const head = take(4)
    const [parent, index, blocks, spans] = [words[head]!, words[head + 1]!, words[head + 2]!, words[head + 3]!]
    must(blocks > 0 && blocks <= runBlocksMax, 'a run has no or too many blocks')
    must(parent === 0 || (parent <= run && index < runLengths[parent - 1]!), 'a run hangs on nothing before it')
    runLengths[run] = blocks
    must(sink.run(parent - 1, index, blocks, take(4 * blocks)), 'no memory is left')
    let from = 0
    for (let span = 0; span < spans; span++) {
      const pair = take(2)
      const [length, holders] = [words[pair]!, words[pair + 1]!]
      const isKnown = holders >= singleHolder ? holders - singleHolder < ranksMax : holders <= sets
      must(length > 0 && from + length <= blocks && isKnown, 'a span leaves its run, or its ranks are unknown')
      must(sink.span(from, from + length, holders), nameTwice)
      from += length
    }
    must(from === blocks, 'the spans do not cover their run')
  }
  for (let alias = 0; alias < aliases; alias++) {
    const head = take(4)
    const [rank, run, index] = [words[head]!, words[head + 1]!, words[head + 2]!]
    must(rank < ranksMax && run < runs && index < runLengths[run]!, 'an alias names nothing')
    must(sink.alias(rank, run, index, take(2)), nameTwice)
  }
  must(at === words.length, 'bytes are left over')
}

export const nameTwice = 'one name twice, or no memory is left'

function must(holds: boolean, reason: string): void {
  if (!holds) refuse(reason)
}

/** Checks the image as a whole. Throws `WR_SNAPSHOT_INVALID`. */
export function openSnapshot(image: Uint8Array): Uint32Array {
  if (image.length < 4 * headerWords || image.length % 4 !== 0) refuse('it is truncated')
  const aligned = image.byteOffset % 4 === 0 ? image : image.slice()
  const words = new Uint32Array(aligned.buffer, aligned.byteOffset, aligned.length / 4)
  if (words[0] !== magic) refuse('it is no index snapshot')
  if (words[1] !== version) refuse(`its version is ${words[1]}, and this reads ${version}`)
  if (words[2] !== words.length) refuse('it is truncated')
  if (words[3] !== checksum(words, words.length)) refuse('its checksum does not match')
  return words
}

function refuse(reason: string): never {
  throw new WarmrouteError('WR_SNAPSHOT_INVALID', { reason })
}

/** Four lanes of multiply and rotate, as XXH32 does it; the checksum's own word counts as 0. */
function checksum(words: Uint32Array, length: number): number {
  let a = 0x24234428
  let b = 0x85ebca77
  let c = 0
  let d = 0x61c8864f
  let at = 4 // the first four words are said in full below
  for (; at + 4 <= length; at += 4) {
    a = round(a, words[at]!)
    b = round(b, words[at + 1]!)
    c = round(c, words[at + 2]!)
    d = round(d, words[at + 3]!)
  }
  for (; at < length; at++) a = round(a, words[at]!)
  a = round(a, words[0]!)
  b = round(b, words[1]!)
  c = round(c, words[2]!)
  return (a ^ Math.imul(b, 0x9e3779b1) ^ ((c << 12) | (c >>> 20)) ^ Math.imul(d, 0xc2b2ae3d)) >>> 0
}

function round(lane: number, word: number): number {
  const sum = (lane + Math.imul(word, 0x85ebca77)) | 0
  return Math.imul((sum << 13) | (sum >>> 19), 0x9e3779b1)
}
