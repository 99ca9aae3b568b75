/** One request inside an engine: what is asked of it, and how far it has come. Only the scheduler writes its state. */

/** Where a request's block keys come from; a prompt's are known at once, generated blocks' when they are complete. */
export interface BlockContent {
  /** The key of block `index`, an integer in [0, 2^53). Called only once its tokens are known. */
  keyAt(index: number): number
}

export interface RequestOptions {
  readonly promptTokens: number
  readonly outputTokensMax: number
  readonly content: BlockContent
  /** Computes everything, but what it computes can be hit (a vLLM request that asks for prompt logprobs). */
  readonly skipsCacheRead?: boolean
  /** Keeps its blocks after its end until `release`: the prefill side of a disaggregated pair. */
  readonly keepsBlocks?: boolean
  /** Leading tokens whose KV comes from elsewhere: the decode side of a pair. They are stored like computed ones. */
  readonly externalTokens?: number
}

/** `rejected`: it could never fit. `abort`: the client or an operator ended it. */
export type FinishReason = 'length' | 'stop' | 'abort' | 'rejected'

/** `Tag` is whatever the caller wants to find again in the engine's answers. */
export class EngineRequest<Tag> {
  readonly tag: Tag
  readonly promptTokens: number
  readonly outputTokensMax: number
  readonly content: BlockContent
  readonly skipsCacheRead: boolean
  readonly keepsBlocks: boolean
  readonly externalTokens: number

  state: 'new' | 'waiting' | 'running' | 'held' | 'done' = 'new'
  /** Tokens whose KV exists, or will when the current pass ends. */
  computed = 0
  generated = 0
  /** Tokens computed by the current pass; 0 when it takes no part. */
  scheduled = 0
  /** Prompt tokens found in a cache when it was first admitted; -1 before. */
  cachedTokens = -1
  /** Of these, tokens that came back from the host tier. */
  hostTokens = 0
  preemptions = 0
  isAborted = false
  slots: Int32Array
  slotCount = 0
  /** Blocks that can be hit by others. */
  completeCount = 0

  constructor(tag: Tag, options: RequestOptions, blockTokens: number) {
    this.tag = tag
    this.promptTokens = options.promptTokens
    this.outputTokensMax = options.outputTokensMax
    this.content = options.content
    this.skipsCacheRead = options.skipsCacheRead ?? false
    this.keepsBlocks = options.keepsBlocks ?? false
    this.externalTokens = Math.min(options.externalTokens ?? 0, options.promptTokens - 1)
    this.slots = new Int32Array(
      Math.ceil((options.promptTokens + Math.min(options.outputTokensMax, 256)) / blockTokens),
    )
  }

  /** Prompt and generated tokens. */
  get known(): number {
    return this.promptTokens + this.generated
  }

  addSlot(slot: number): void {
    if (this.slotCount === this.slots.length) {
      const wider = new Int32Array(this.slots.length * 2 + 4)
      wider.set(this.slots)
      this.slots = wider
    }
    this.slots[this.slotCount++] = slot
  }
}
