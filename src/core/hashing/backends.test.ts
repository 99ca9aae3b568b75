// Goal: both implementations are XXH3-64, for every length and seed. Method: an independent native library judges both.
import { xxh3 as oracle } from '@node-rs/xxhash'
import fc from 'fast-check'
import { describe, expect, it, vi } from 'vitest'
import { toBigInts, toHashColumn } from '../protocol/index.js'
import { seededScheme, xxh3 } from './hash-scheme.js'
import { BlockHashes, createBlockHasher, createHashScheme, toBlockMedia } from './index.js'
import { TsBackend } from './ts-backend.js'
import { WasmBackend } from './wasm-backend.js'
import { hashers } from './vectors.case.js'

const anySeed = fc.bigInt(0n, 2n ** 64n - 1n)

it('the TypeScript twin equals the native library for any bytes and seed', () => {
  fc.assert(
    fc.property(fc.uint8Array({ maxLength: 3000, size: 'max' }), anySeed, (bytes, seed) => {
      expect(xxh3(bytes, seed)).toBe(oracle.xxh64(bytes, seed))
    }),
    { numRuns: 300 },
  )
})

it('the TypeScript twin equals the native library for every length up to 1,200 bytes', () => {
  const bytes = noise(1200)
  for (let length = 0; length <= bytes.length; length++) {
    const part = bytes.subarray(0, length)
    expect(xxh3(part, 1337n + BigInt(length))).toBe(oracle.xxh64(part, 1337n + BigInt(length)))
  }
})

describe.each([new TsBackend(), WasmBackend.create()!])('$name', (backend) => {
  it('hashes any words under any seed as the native library does', () => {
    const anyWords = fc.uint32Array({ maxLength: 9000, size: 'max' })
    const out = new Uint32Array(4)
    fc.assert(
      fc.property(anyWords, anySeed, (words, seed) => {
        backend.hashWords(words, seededScheme(1, false, seed, 0n), out, 1)
        expect(toBigInts(out)[1]).toBe(oracle.xxh64(bytesOf(words), seed))
      }),
      { numRuns: 60 },
    )
  })

  it('chains any hashes under any seed as the native library does', () => {
    fc.assert(
      fc.property(fc.array(anySeed, { maxLength: 40 }), anySeed, (hashes, seed) => {
        const local = toHashColumn(hashes)
        const sequence = new Uint32Array(local.length)
        backend.chainBlocks(seededScheme(1, false, 0n, seed), 0, hashes.length, local, sequence)
        expect(toBigInts(sequence)).toEqual(oracleChain(hashes, seed))
      }),
    )
  })
})

describe.each(hashers)('$backend', (hasher) => {
  it('hashes every block size from 1 to 600, plain and eagle, as the native library does', () => {
    const tokens = new Uint32Array(noise(4 * 1300).buffer)
    const hashes = new BlockHashes()
    for (let blockSize = 1; blockSize <= 600; blockSize++) {
      for (const isEagle of [false, true]) {
        // Few blocks are enough: sizes are what differs.
        const part = tokens.subarray(0, Math.min(tokens.length, 3 * blockSize + 1))
        hasher.hash(part, createHashScheme({ blockSize, isEagle }), hashes)
        const local = oracleLocal(part, blockSize, isEagle, 1337n)
        expect(toBigInts(hashes.localColumn())).toEqual(local)
        expect(toBigInts(hashes.sequenceColumn())).toEqual(oracleChain(local, 1337n))
      }
    }
  })

  it('hashes prompts longer than one pass through the kernel, at every offset into their buffer', () => {
    const tokens = new Uint32Array(noise(4 * 40_000).buffer)
    const hashes = new BlockHashes()
    for (const [blockSize, isEagle] of [
      [16, false],
      [16, true],
      [7, true],
      [1, false],
      [8193, false],
      [8193, true],
      [20_000, false],
    ] as const) {
      for (const offset of [0, 1, 5]) {
        const part = tokens.subarray(offset)
        hasher.hash(part, createHashScheme({ blockSize, isEagle }), hashes)
        const local = oracleLocal(part, blockSize, isEagle, 1337n)
        expect(toBigInts(hashes.localColumn())).toEqual(local)
        expect(toBigInts(hashes.sequenceColumn())).toEqual(oracleChain(local, 1337n))
      }
    }
  })

  it('mixes any media into any blocks as the native library does', () => {
    const anyMedia = fc.array(fc.option(fc.array(anySeed, { maxLength: 5 })), { maxLength: 12 })
    const anyCut = fc.record({ blockSize: fc.integer({ min: 1, max: 70 }), isEagle: fc.boolean() })
    fc.assert(
      fc.property(fc.uint32Array({ maxLength: 300, size: 'max' }), anyMedia, anyCut, (tokens, media, cut) => {
        const hashes = new BlockHashes()
        const infos = media.map((block) => block && { mmObjects: block.map((mmHash) => ({ mmHash, offsets: [] })) })
        hasher.hash(tokens, createHashScheme(cut), hashes, toBlockMedia(infos))
        const local = oracleLocal(tokens, cut.blockSize, cut.isEagle, 1337n, media)
        expect(toBigInts(hashes.localColumn())).toEqual(local)
        expect(toBigInts(hashes.sequenceColumn())).toEqual(oracleChain(local, 1337n))
      }),
      { numRuns: 200 },
    )
  })
})

it('takes WebAssembly where it runs and the twin where it does not', () => {
  expect(createBlockHasher().backend).toBe('wasm')
  vi.stubGlobal('WebAssembly', undefined)
  try {
    expect(createBlockHasher().backend).toBe('ts')
    expect(() => createBlockHasher({ backend: 'wasm' })).toThrow('WebAssembly with SIMD does not run here')
  } finally {
    vi.unstubAllGlobals()
  }
})

it('takes the twin where the processor or the platform refuses the kernel', () => {
  const refuse = class {
    constructor() {
      throw new Error('no SIMD')
    }
  }
  vi.stubGlobal('WebAssembly', { Module: refuse, Instance: refuse })
  try {
    expect(createBlockHasher().backend).toBe('ts')
  } finally {
    vi.unstubAllGlobals()
  }
})

function bytesOf(words: Uint32Array): Uint8Array {
  return new Uint8Array(words.buffer, words.byteOffset, words.byteLength)
}

/** The definition, written down plainly. */
function oracleLocal(
  tokens: Uint32Array,
  blockSize: number,
  isEagle: boolean,
  seed: bigint,
  media: readonly (readonly bigint[] | null)[] = [],
): bigint[] {
  const window = blockSize + (isEagle ? 1 : 0)
  const local: bigint[] = []
  for (let block = 0; block * blockSize + window <= tokens.length; block++) {
    const suffix = new BigUint64Array([...(media[block] ?? [])].sort((a, b) => (a < b ? -1 : a > b ? 1 : 0)))
    const words = tokens.subarray(block * blockSize, block * blockSize + window)
    local.push(oracle.xxh64(Buffer.concat([bytesOf(words), new Uint8Array(suffix.buffer)]), seed))
  }
  return local
}

function oracleChain(local: readonly bigint[], seed: bigint): bigint[] {
  const chain: bigint[] = []
  for (const hash of local) {
    const before = chain.at(-1)
    const pair = before === undefined ? undefined : new BigUint64Array([before, hash])
    chain.push(pair ? oracle.xxh64(new Uint8Array(pair.buffer), seed) : hash)
  }
  return chain
}

/** Bytes that look random and are the same in every run. */
function noise(length: number): Uint8Array<ArrayBuffer> {
  const bytes = new Uint8Array(length)
  let state = 1
  for (let at = 0; at < length; at++) {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) | 0
    bytes[at] = state >>> 24
  }
  return bytes
}
