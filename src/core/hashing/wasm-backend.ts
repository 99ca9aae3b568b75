/**
 * The hashes by the AssemblyScript kernel. Its memory is small and fixed, so a long prompt goes through it in chunks: one
 * copy in, one call, two copies out per 8,192 tokens. A chunk and its hashes stay in the processor's nearest caches.
 */
import type { HashColumn } from '../protocol/index.js'
import type { HashBackend } from './backend.js'
import type { HashScheme } from './hash-scheme.js'
import { windowOf } from './hash-scheme.js'
import { instantiateKernel } from './instantiate-kernel.js'
import { hashKernel } from './kernel.generated.js'
import { TsBackend } from './ts-backend.js'

interface Address {
  readonly value: number
}

interface HashKernel {
  readonly memory: { readonly buffer: ArrayBuffer }
  readonly TOKENS: Address
  readonly TOKENS_MAX: Address
  readonly LOCAL: Address
  readonly SEQUENCE: Address
  readonly BLOCKS_MAX: Address
  readonly SEEDS: Address
  hashChunk(count: number, strideBytes: number, windowBytes: number, isFirst: number): void
  chainChunk(count: number, isFirst: number): void
  hashBytes(length: number): void
}

/** A view costs about 50 ns to make: a turn of a conversation, often a dozen blocks, is copied faster word by word. */
const walkBlocksMax = 24

export class WasmBackend implements HashBackend {
  readonly name = 'wasm'
  readonly #kernel: HashKernel
  /** The kernel's whole memory; addresses below are indexes into it. */
  readonly #words: Uint32Array
  readonly #tokens: number
  readonly #local: number
  readonly #sequence: number
  readonly #seeds: number
  readonly #tokensMax: number
  readonly #blocksMax: number
  /** Whose seeds the kernel has. */
  #scheme: HashScheme | undefined
  /** For what does not fit the kernel's memory: blocks of more than 8,193 tokens. */
  readonly #twin = new TsBackend()

  private constructor(kernel: HashKernel) {
    this.#kernel = kernel
    this.#words = new Uint32Array(kernel.memory.buffer)
    this.#tokens = kernel.TOKENS.value / 4
    this.#local = kernel.LOCAL.value / 4
    this.#sequence = kernel.SEQUENCE.value / 4
    this.#seeds = kernel.SEEDS.value / 4
    this.#tokensMax = kernel.TOKENS_MAX.value
    this.#blocksMax = kernel.BLOCKS_MAX.value
  }

  /** Undefined where the kernel cannot run. */
  static create(): WasmBackend | undefined {
    const kernel = instantiateKernel<HashKernel>(hashKernel)
    return kernel && new WasmBackend(kernel)
  }

  hashBlocks(
    tokens: Uint32Array,
    scheme: HashScheme,
    from: number,
    to: number,
    local: HashColumn,
    sequence: HashColumn,
  ): void {
    const stride = scheme.blockSize
    const window = windowOf(scheme)
    if (window > this.#tokensMax) return this.#twin.hashBlocks(tokens, scheme, from, to, local, sequence)
    const chunk = Math.min(this.#blocksMax, Math.floor((this.#tokensMax - window) / stride) + 1)
    this.#begin(scheme, from, sequence)
    for (let block = from; block < to; block += chunk) {
      const count = Math.min(chunk, to - block)
      this.#words.set(tokens.subarray(block * stride, (block + count - 1) * stride + window), this.#tokens)
      this.#kernel.hashChunk(count, 4 * stride, 4 * window, block === 0 ? 1 : 0)
      this.#copyOut(this.#local, count, local, block)
      this.#copyOut(this.#sequence, count, sequence, block)
    }
  }

  chainBlocks(scheme: HashScheme, from: number, to: number, local: HashColumn, sequence: HashColumn): void {
    this.#begin(scheme, from, sequence)
    for (let block = from; block < to; block += this.#blocksMax) {
      const count = Math.min(this.#blocksMax, to - block)
      this.#words.set(local.subarray(2 * block, 2 * (block + count)), this.#local)
      this.#kernel.chainChunk(count, block === 0 ? 1 : 0)
      this.#copyOut(this.#sequence, count, sequence, block)
    }
  }

  hashWords(words: Uint32Array, scheme: HashScheme, out: HashColumn, at: number): void {
    if (words.length > this.#tokensMax) return this.#twin.hashWords(words, scheme, out, at)
    this.#useSeeds(scheme)
    this.#words.set(words, this.#tokens)
    this.#kernel.hashBytes(words.byteLength)
    out[2 * at] = this.#words[this.#local]!
    out[2 * at + 1] = this.#words[this.#local + 1]!
  }

  /** Seeds, and the hash that the chain goes on from; the kernel carries that from chunk to chunk itself. */
  #begin(scheme: HashScheme, from: number, sequence: HashColumn): void {
    this.#useSeeds(scheme)
    if (from === 0) return
    this.#words[this.#seeds + 4] = sequence[2 * from - 2]!
    this.#words[this.#seeds + 5] = sequence[2 * from - 1]!
  }

  #useSeeds(scheme: HashScheme): void {
    if (this.#scheme === scheme) return
    this.#words.set(scheme.seeds, this.#seeds)
    this.#scheme = scheme
  }

  #copyOut(address: number, count: number, column: HashColumn, block: number): void {
    const words = this.#words
    if (count > walkBlocksMax) column.set(words.subarray(address, address + 2 * count), 2 * block)
    else for (let at = 0; at < 2 * count; at++) column[2 * block + at] = words[address + at]!
  }
}
