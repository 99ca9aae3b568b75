import { expect, it } from 'vitest'
import { randomFrom } from '../../../bench/tokens/texts.js'
import { BlockHashes, createBlockHasher, createHashScheme } from '../../core/hashing/index.js'
import { sliceIds } from '../next-turn.js'
import type { NewText } from './remembered-texts.js'
import { RememberedTexts } from './remembered-texts.js'
import { turnsDuring } from '../turns.case.js'

const sliceBytes = 4 * sliceIds
const noCuts = new Uint32Array(0)

function bytesOf(length: number): Uint8Array {
  const random = randomFrom(7)
  return Uint8Array.from({ length }, () => random(256))
}

it('what is looked for in slices is found as at once, and others have their turn meanwhile', async () => {
  const known = bytesOf(3 * sliceBytes)
  const around = [0, 1, 3, 4, 127, 2047, 2048, 2049]
  const lengths = [1, 2, 3].flatMap((slices) =>
    around.flatMap((it) => [slices * sliceBytes - it, slices * sliceBytes + it]),
  )
  for (const length of [0, 100, 5000, ...lengths]) {
    const texts = new RememberedTexts(64 << 20)
    const ids = new Uint32Array(1)
    texts.add({ bytes: known, ids, specialsBefore: 0, specialsAfter: 0, cuts: noCuts }, texts.find(known, false))
    const bytes = Uint8Array.from({ length }, (_, at) => known[at] ?? 1)
    if (length > 6000) bytes[length - 1000]! ^= 1
    const { result: found, turns } = await turnsDuring(() => texts.findInSlices(bytes, false))
    const expected = texts.find(bytes, false)
    expect(found.marks).toEqual(expected.marks)
    expect(found.match?.common).toBe(expected.match?.common)
    expect(found.match?.text).toBe(expected.match?.text)
    expect(turns).toBeGreaterThanOrEqual(Math.ceil(length / sliceBytes) - 1)
  }
})

const wordsOf = (bytes: Uint8Array): Uint32Array => new Uint32Array(bytes.buffer)
const remembered = (bytes: Uint8Array): NewText => ({
  bytes,
  ids: noCuts,
  specialsBefore: 0,
  specialsAfter: 0,
  cuts: noCuts,
})

it.each([1_000_000 / 3, 2 ** 32, 2 ** 33 + 0.5])('remembers texts within any number of bytes: %d', (bytesMax) => {
  const texts = new RememberedTexts(bytesMax)
  const bytes = bytesOf(5000)
  texts.add(remembered(bytes), texts.find(bytes, false))
  expect(texts.find(bytes, false).match?.common).toBe(5000)
})

/** Another text with the same mark: three words are changed such that both halves of the state are as they were after the third. */
function twinOf(bytes: Uint8Array): Uint8Array {
  const factor = 0x9e37_79b1
  let inverse = factor // of the factor, modulo 2 ** 32
  for (let round = 0; round < 5; round++) inverse = Math.imul(inverse, 2 - Math.imul(factor, inverse))
  const next = (low: number, word: number): number => {
    const mixed = Math.imul(low ^ word, factor)
    return mixed ^ (mixed >>> 15)
  }
  const wordFor = (low: number, wanted: number): number =>
    low ^ Math.imul(wanted ^ (wanted >>> 15) ^ (wanted >>> 30), inverse)
  const twin = bytes.slice()
  const [given, changed] = [wordsOf(bytes), wordsOf(twin)]
  let low = 0x7f4a_7c15
  let other = low
  for (const [index, change] of [1, -31, 0].entries()) {
    low = next(low, given[index]!)
    const wanted = (low + change) | 0
    changed[index] = wordFor(other, wanted)
    other = wanted
  }
  return twin
}

it.each([true, false])(
  'a text is found by those alone that have special tokens where it has them: %s',
  async (isWrapped) => {
    const texts = new RememberedTexts(1 << 20)
    const bytes = bytesOf(5000)
    const stored = texts.add(remembered(bytes), texts.find(bytes, isWrapped))
    expect(texts.find(bytes, isWrapped).match?.text).toBe(stored)
    expect(texts.find(bytes, !isWrapped).match).toBe(undefined)
    expect((await texts.findInSlices(bytes, !isWrapped)).match).toBe(undefined)
  },
)

it.each([200, 5000])('a text with the marks of another is not taken for it: %d bytes', (length) => {
  const texts = new RememberedTexts(1 << 20)
  const bytes = bytesOf(length)
  const twin = twinOf(bytes)
  const stored = texts.add(remembered(bytes), texts.find(bytes, false))
  const { marks, match } = texts.find(twin, false)
  expect(twin).not.toEqual(bytes)
  expect(marks).toEqual(stored.marks)
  expect(match).toBeUndefined()
  expect(texts.find(bytes, false).match?.text).toBe(stored)
  expect(texts.counts).toEqual({ hits: 1, misses: 2, evictions: 0 })
})

it('the hashes of a text count as bytes, and what they displace as evicted', () => {
  const texts = new RememberedTexts(16_000)
  const ids = Uint32Array.from({ length: 800 }, (_, at) => at)
  const hasher = createBlockHasher()
  const stored = [1, 2, 3].map((seed) => {
    const bytes = bytesOf(2000).map((byte) => byte ^ seed)
    return texts.add(remembered(bytes), texts.find(bytes, false))
  })
  const before = texts.byteLength
  let hashed = 0
  for (const text of stored) {
    const hashes = new BlockHashes()
    hasher.hash(ids, createHashScheme({ blockSize: 4 }), hashes)
    texts.addHashes(text, hashes)
    if (hashed === 0) {
      hashed = hashes.local.byteLength + hashes.sequence.byteLength + 600
      expect(texts.byteLength).toBe(before + hashed)
    }
    expect(texts.byteLength).toBeLessThanOrEqual(16_000)
  }
  expect(texts.counts.evictions).toBe(3 - texts.count)
  expect(texts.counts.evictions).toBeGreaterThan(0)
})

it('a text that goes on from another has its own marks behind what they share', () => {
  const texts = new RememberedTexts(1 << 20)
  const bytes = bytesOf(9000)
  const stored = texts.add(remembered(bytes), texts.find(bytes, false))
  for (const common of [1, 127, 128, 300, 2047, 2048, 5000]) {
    const other = bytes.slice()
    other[common]! ^= 1
    const { marks, match } = texts.findAfter(stored, other, common)
    expect(match?.common).toBe(common)
    expect(marks).toEqual(texts.find(other, false).marks)
  }
})

it.each([
  [1, 0],
  [0, 1],
])('and those of a text with special tokens around it: %d, %d', (specialsBefore, specialsAfter) => {
  // biome-ignore format: short
  const texts = new RememberedTexts(1 << 20)
  const bytes = bytesOf(300)
  const stored = texts.add({ ...remembered(bytes), specialsBefore, specialsAfter }, texts.find(bytes, true))
  const other = bytes.slice()
  other[50]! ^= 1
  expect(texts.findAfter(stored, other, 50).marks).toEqual(texts.find(other, true).marks)
})

it('a short text is not kept, and a longer one with its marks is not taken for it', () => {
  const texts = new RememberedTexts(1 << 20)
  const short = bytesOf(127)
  texts.add(remembered(short), texts.find(short, false))
  expect(texts.count).toBe(0)
  const long = bytesOf(5000)
  texts.add(remembered(long.slice(0, 1500)), texts.find(long, false))
  expect(texts.count).toBe(1)
  expect(texts.find(long, false).match?.common).toBe(1500)
  texts.clear()
  expect([texts.count, texts.markCount]).toEqual([0, 0])
})

it('a text that only begins like another leaves it where it is; one that goes on from it takes its place', () => {
  const texts = new RememberedTexts(1 << 20)
  const bytes = bytesOf(3000)
  const first = texts.add(remembered(bytes), texts.find(bytes, false))
  const other = bytes.map((byte, at) => (at < 1100 ? byte : byte ^ 1))
  texts.add(remembered(other), texts.find(other, false))
  expect(texts.count).toBe(2)
  expect(texts.find(bytes, false).match).toEqual({ text: first, common: 3000 })
  const longer = Uint8Array.from([...bytes, ...other])
  texts.add(remembered(longer), texts.find(longer, false))
  expect(texts.count).toBe(2)
  expect(texts.find(bytes, false).match?.text.bytes).toEqual(longer)
  expect(texts.counts.evictions).toBe(0)
})

it('a text that was forgotten does not come back with its hashes, and does not take along the marks of one that came later', () => {
  const texts = new RememberedTexts(9000)
  const bytes = bytesOf(2000)
  const first = texts.add(remembered(bytes), texts.find(bytes, false))
  const alike = bytes.map((byte, at) => (at < 1100 ? byte : byte ^ 1))
  const second = texts.add(remembered(alike), texts.find(alike, false))
  for (let seed = 2; texts.counts.evictions === 0; seed++) {
    const other = bytes.map((byte) => byte ^ seed)
    texts.find(alike, false) // used, so that the first goes
    texts.add(remembered(other), texts.find(other, false))
  }
  texts.addHashes(first, new BlockHashes())
  expect(texts.counts.evictions).toBe(1) // it would have displaced another
  expect(texts.find(bytes, false).match).toEqual({ text: second, common: 1100 })
})

it('a text that is too large to be kept takes nothing from those that are', () => {
  const texts = new RememberedTexts(9000)
  const bytes = bytesOf(2000)
  const first = texts.add(remembered(bytes), texts.find(bytes, false))
  const alike = Uint8Array.from({ length: 6000 }, (_, at) => bytes[at % 2000]! ^ (at < 1100 ? 0 : 1))
  const longer = Uint8Array.from({ length: 6000 }, (_, at) => bytes[at % 2000]!)
  for (const large of [alike, longer]) {
    texts.add(remembered(large), texts.find(large, false))
    expect(texts.count).toBe(1)
    expect(texts.find(bytes, false).match).toEqual({ text: first, common: 2000 })
  }
})

it('a text whose hashes make it too large is forgotten, and counted', () => {
  const texts = new RememberedTexts(9000)
  const bytes = bytesOf(2000)
  const stored = texts.add(remembered(bytes), texts.find(bytes, false))
  const hashes = new BlockHashes()
  const ids = Uint32Array.from({ length: 800 }, (_, at) => at)
  createBlockHasher().hash(ids, createHashScheme({ blockSize: 4 }), hashes)
  texts.addHashes(stored, hashes)
  expect(texts.count).toBe(0)
  expect(texts.counts.evictions).toBe(1)
  expect(texts.find(bytes, false).match).toBeUndefined()
})

it('counts the bytes, the ids, the cuts and the marks of a text, and forgets its marks with it', () => {
  const texts = new RememberedTexts(1 << 20)
  const bytes = bytesOf(5000)
  const text = { ...remembered(bytes), ids: new Uint32Array(100), cuts: new Uint32Array(40) }
  const { marks } = texts.add(text, texts.find(bytes, false))
  expect(marks).toHaveLength(6) // at 128, 256, 512, 1024, 2048 and 4096
  expect(texts.byteLength).toBe(5000 + 400 + 160 + 6 * 72 + 1300)
  expect(texts.markCount).toBe(6)
  for (let seed = 1; seed <= 400; seed++) {
    const other = bytes.map((byte) => byte ^ seed)
    texts.add(remembered(other), texts.find(other, false))
  }
  expect(texts.counts.evictions).toBeGreaterThan(100)
  expect(texts.markCount).toBe(6 * texts.count)
})

it('a text that another went on from was used: it outlives one that was not', () => {
  const texts = new RememberedTexts(7500) // two of them, and not three
  const [first, second, third] = [0, 1, 2].map((seed) => bytesOf(2000).map((byte) => byte ^ seed))
  const stored = texts.add(remembered(first!), texts.find(first!, false))
  texts.add(remembered(second!), texts.find(second!, false))
  texts.findAfter(stored, first!, 1000)
  expect(texts.counts).toMatchObject({ hits: 1, misses: 2 })
  texts.add(remembered(third!), texts.find(third!, false))
  expect(texts.counts.evictions).toBe(1)
  expect(texts.find(first!, false).match?.text).toBe(stored)
  expect(texts.find(second!, false).match).toBeUndefined()
})

it('keeps the hashes of a text in the two forms that were asked for last', () => {
  const texts = new RememberedTexts(1 << 20)
  const bytes = bytesOf(2000)
  const stored = texts.add(remembered(bytes), texts.find(bytes, false))
  const hashes = [4, 8, 16, 32].map((blockSize) => {
    const made = new BlockHashes()
    createBlockHasher().hash(Uint32Array.from({ length: 800 }), createHashScheme({ blockSize }), made)
    texts.addHashes(stored, made)
    return made
  })
  expect(stored.hashes).toEqual(hashes.slice(2))
})
