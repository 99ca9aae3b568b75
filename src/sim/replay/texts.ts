/** Texts that share beginnings, as ids of blocks of 512 tokens. An id stands for the same tokens wherever it is used. */
export interface Text {
  readonly tokens: number
  readonly blockIds: readonly number[]
}

const blockTokens = 512

export class Texts {
  #nextId = 0

  /** A text that shares nothing with any other. */
  root(tokens: number): Text {
    return this.extend({ tokens: 0, blockIds: [] }, tokens)
  }

  /** The same text, longer. Only one continuation may be made this way: a second one would say the same words. */
  extend(text: Text, tokens: number): Text {
    const all = text.tokens + tokens
    const blockIds = [...text.blockIds]
    while (blockIds.length < Math.ceil(all / blockTokens)) blockIds.push(this.#nextId++)
    return { tokens: all, blockIds }
  }

  /** One of several continuations: shares the whole blocks before it, and nothing behind. */
  branch(text: Text, tokens: number): Text {
    const shared = { tokens: text.tokens, blockIds: text.blockIds.slice(0, Math.floor(text.tokens / blockTokens)) }
    return this.extend(shared, tokens)
  }
}
