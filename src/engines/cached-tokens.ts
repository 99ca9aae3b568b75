/** How many cached tokens an engine will report, from how many leading blocks of the prompt it holds. */

export interface CachedTokensInput {
  readonly engine: 'vllm' | 'sglang'
  readonly promptTokens: number
  /** Contiguous blocks from the start of the prompt, as the index knows them. */
  readonly matchedBlocks: number
  readonly blockSize: number
  /** vLLM with EAGLE or MTP gives the last matched block up. */
  readonly isEagle?: boolean
}

/** The last token is always computed, so a prompt of exactly k blocks reuses at most k - 1 of them. */
export function predictCachedTokens(input: CachedTokensInput): number {
  const { promptTokens, matchedBlocks, blockSize } = input
  if (blockSize <= 0 || promptTokens <= 0) return 0
  const reusable = Math.min(matchedBlocks, Math.floor((promptTokens - 1) / blockSize))
  const givenUp = input.engine === 'vllm' && input.isEagle && reusable > 0 ? 1 : 0
  return (reusable - givenUp) * blockSize
}

/** What a router credits, cut to what an engine can reuse of this prompt: it always computes the last token itself. */
export function reusableTokens(
  creditedTokens: number,
  promptTokens: number,
  blockSize: number,
  givesBlockUp = false,
): number {
  return predictCachedTokens({
    engine: 'vllm',
    isEagle: givesBlockUp,
    promptTokens,
    matchedBlocks: Math.floor(creditedTokens / blockSize),
    blockSize,
  })
}
