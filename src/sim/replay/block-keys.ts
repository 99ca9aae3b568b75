/**
 * Turns a trace's block ids into the keys of engine blocks: equal keys for equal prefixes, whatever the block size.
 * A trace block stands for `traceBlockTokens` copies of one token, so any block size that divides it, or is a multiple of it, sees the
 * same sharing.
 */
import { WarmrouteError } from '../../core/protocol/index.js'
import type { TraceRequest } from './trace.js'

/** A map holds no more than 2^24 entries. */
const childrenMax = 2 ** 24 - 1

export class BlockKeys {
  readonly #blocksPerId: number // one of the two is 1
  readonly #idsPerBlock: number
  readonly #blockTokens: number
  readonly #children = new Map<number, number>() // parent node * 2^24 + id: node
  readonly #ids = new Map<number, number>() // a trace's ids may be any numbers; here they are counted from 0
  #nodes = 1 // 0 is the root

  constructor(blockTokens: number, traceBlockTokens = 512) {
    if (traceBlockTokens % blockTokens !== 0 && blockTokens % traceBlockTokens !== 0)
      throw new WarmrouteError('WR_INVALID_ARGUMENT', {
        reason: `a block of ${blockTokens} tokens does not divide a trace block of ${traceBlockTokens}, nor the other way round`,
      })
    this.#blocksPerId = Math.max(1, traceBlockTokens / blockTokens)
    this.#idsPerBlock = Math.max(1, blockTokens / traceBlockTokens)
    this.#blockTokens = blockTokens
  }

  /** The keys of all full blocks of a prompt. Prompts must come in the same order for runs to be equal byte by byte. */
  keysOf(request: TraceRequest): Float64Array {
    const per = this.#blocksPerId
    const keys = new Float64Array(Math.floor(request.promptTokens / this.#blockTokens))
    this.walk(request, (node, start, end) => {
      for (let index = start; index < end; index++) keys[index] = node * per + (index - start)
    })
    return keys
  }

  /** Visits a prompt's runs of equal tokens: equal nodes for equal prefixes. `start` to `end` are the full blocks in each. */
  walk(request: TraceRequest, visit: (node: number, start: number, end: number) => void): void {
    const { blockIds, promptTokens } = request
    const per = this.#blocksPerId
    const count = Math.floor(promptTokens / this.#blockTokens)
    let node = 0
    for (let start = 0, at = 0; start < count; start += per) {
      for (let ids = 0; ids < this.#idsPerBlock; ids++, at++) {
        const id = blockIds[at]
        node = id === undefined ? this.#nodes++ : this.#child(node, id) // what has no id is nobody else's
      }
      visit(node, start, Math.min(count, start + per))
    }
  }

  /** A key that no prompt has: the block of tokens that only one request generated. Never repeats. */
  fresh(): number {
    return this.#nodes++ * this.#blocksPerId
  }

  #child(parent: number, id: number): number {
    let dense = this.#ids.get(id)
    if (dense === undefined) this.#ids.set(id, (dense = this.#ids.size))
    const path = parent * 16777216 + dense
    const known = this.#children.get(path)
    if (known !== undefined) return known
    if (this.#children.size >= childrenMax)
      throw new WarmrouteError('WR_INVALID_ARGUMENT', {
        reason: `the trace has more than ${childrenMax} different blocks: replay a part of it`,
      })
    const node = this.#nodes++
    this.#children.set(path, node)
    return node
  }
}
