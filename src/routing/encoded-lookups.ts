/** Lookups of a prompt that engines of one model encode differently, in the index here or in one that is elsewhere. */
import type { MatchColumns } from '../core/protocol/index.js'
import { hashCount } from '../core/protocol/index.js'
import type { FindBestMatch } from './best-match.js'
import { matchesByEncoding } from './encodings.js'
import type { LiveCore } from './live-core.js'
import type { Prompt } from './prompt.js'
import type { PromptEncoding, PromptHashes } from './router-port.js'

export class EncodedLookups {
  readonly #live: LiveCore
  readonly #blockSize: number

  constructor(live: LiveCore, blockSize: number) {
    this.#live = live
    this.#blockSize = blockSize
  }

  /** Columns of their own. Those of the index here are lent, so that no `await` may come before they are read. */
  async remoteMatches(input: FindBestMatch, prompt: Prompt): Promise<MatchColumns> {
    return (await this.#live.lookups.ask({ ...input, tokens: undefined }, prompt, this.#live.stop)).matches!()
  }

  /** Of a remote index: what it knows of the prompt as others encode it. */
  ask(input: FindBestMatch, encodings: readonly PromptEncoding[]): Promise<readonly (MatchColumns | undefined)[]> {
    const ask = async ({ hashes }: PromptEncoding): Promise<MatchColumns | undefined> =>
      hashes && (await this.remoteMatches(input, this.#promptOf(hashes)))
    return Promise.all(encodings.map(ask))
  }

  /** What every worker holds by now of its own. Nothing where a remote index does not say. */
  async lookUpAgain(
    input: FindBestMatch,
    prompt: Prompt,
    encodings: readonly PromptEncoding[],
  ): Promise<(() => MatchColumns) | undefined> {
    if (this.#live.core.index) return () => this.merge(encodings, this.#live.find(prompt), undefined)
    const asked = Promise.all([this.remoteMatches(input, prompt), this.ask(input, encodings)])
    const found = await asked.catch(() => undefined) // the old figures hold
    return found && (() => this.merge(encodings, ...found))
  }

  /** Every worker's figures by its own encoding: found elsewhere, or here and now. */
  merge(
    encodings: readonly PromptEncoding[],
    usual: MatchColumns,
    elsewhere: readonly (MatchColumns | undefined)[] | undefined,
  ): MatchColumns {
    const find = (hashes: PromptHashes, index: number): MatchColumns =>
      elsewhere?.[index] ?? this.#live.find(this.#promptOf(hashes))
    return matchesByEncoding(this.#live.core.ranks, usual, encodings, find)
  }

  #promptOf({ local, sequence }: PromptHashes): Prompt {
    const blockCount = hashCount(local)
    return { tokenCount: blockCount * this.#blockSize, blockCount, local, sequence }
  }
}
