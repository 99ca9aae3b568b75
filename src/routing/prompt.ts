/** A prompt on its way through a routing: its length and its hashes, in columns that are either lent or its own. */
import { BlockHashes } from '../core/hashing/index.js'
import type { KvIndex } from '../core/index/index.js'
import type { HashColumn } from '../core/protocol/index.js'
import { hashCount, WarmrouteError } from '../core/protocol/index.js'
import type { FindBestMatch } from './best-match.js'
import type { PromptHashing, PromptInput } from './prompt-hashing.js'

export interface Prompt {
  readonly tokenCount: number
  readonly blockCount: number
  /** What the index knows it by; absent where tokens are unknown. */
  readonly local: HashColumn | undefined
  readonly sequence: HashColumn | undefined
}

/**
 * Lent columns: valid until the next prompt is hashed into them, which no `await` may come before. With an index, what it
 * is asked by lies in its own memory, and is gone as soon as the index changes: recording a decision comes last.
 */
export class PromptScratch {
  readonly hashes: BlockHashes
  readonly tracking = new BlockHashes()

  constructor(index?: Pick<KvIndex, 'promptColumn'>) {
    this.hashes = new BlockHashes(index && ((blockCount) => index.promptColumn(blockCount)))
  }
}

/** Throws `WR_INVALID_ARGUMENT` for a prompt without a token. */
export function hashPrompt(hashing: PromptHashing, input: FindBestMatch, blockSize: number, into: BlockHashes): Prompt {
  const { tokens, hashes } = input
  if (hashes) {
    const blockCount = hashCount(hashes.local)
    const tokenCount = requireTokens(input.tokenCount ?? tokens?.length ?? blockCount * blockSize)
    return { tokenCount, blockCount, local: hashes.local, sequence: hashes.sequence }
  }
  if (!tokens) {
    // Load alone decides. A prompt of unknown length counts as one block, so that it is load at all.
    const tokenCount = requireTokens(input.tokenCount ?? blockSize)
    return { tokenCount, blockCount: 0, local: undefined, sequence: undefined }
  }
  const tokenCount = requireTokens(tokens.length)
  hashing.hash(promptInput(input, tokens), into)
  return { tokenCount, blockCount: into.count, local: into.local, sequence: into.sequence }
}

/** What its blocks are called while it runs; nothing when blocks are not tracked. */
export function nameBlocks(
  hashing: PromptHashing,
  input: FindBestMatch,
  prompt: Prompt,
  scratch: PromptScratch,
): { readonly names: HashColumn | undefined; readonly count: number } {
  const { tokens, hashes, routerConfigOverride: override } = input
  if (hashes)
    return { names: hashing.namesFrom(hashes.sequence, prompt.blockCount, override), count: prompt.blockCount }
  if (tokens) {
    const names = hashing.trackingNames(promptInput(input, tokens), override, scratch.hashes, scratch.tracking)
    return { names, count: prompt.blockCount }
  }
  const names = hashing.namesForLength(prompt.tokenCount)
  return { names, count: names ? hashCount(names) : 0 }
}

/** Written out: on Node 20 a spread costs about 1 µs for each property that follows it. */
function promptInput({ blockMmInfos, loraName, cacheNamespace }: FindBestMatch, tokens: Uint32Array): PromptInput {
  return { tokens, blockMmInfos, loraName, cacheNamespace }
}

function requireTokens(count: number): number {
  if (Number.isSafeInteger(count) && count > 0) return count
  throw new WarmrouteError('WR_INVALID_ARGUMENT', { reason: 'a prompt has at least one token', tokenCount: count })
}
