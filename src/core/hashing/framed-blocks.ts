/**
 * Block hashes of producers built on lib/kv-hashing at v1.5.0. Blocks of text agree with ours bit for bit; a block that an
 * image touches does not: there each position is written in 13 bytes, as a token or as a place inside the image's run.
 * The router itself hashes media as `block-media.ts` does.
 */
import { WarmrouteError } from '../protocol/index.js'
import { joined, u32le, u64le } from './bytes.js'
import type { PromptNames } from './hash-scheme.js'
import { blockSeed, xxh3 } from './hash-scheme.js'

/** Placeholder tokens `offset` to `offset + length` stand for one object. */
export interface MediaRun {
  readonly mmHash: bigint
  readonly offset: number
  readonly length: number
}

export function computeFramedBlockHashes(
  tokens: Uint32Array,
  blockSize: number,
  runs: readonly MediaRun[],
  names: PromptNames = {},
): bigint[] {
  const sorted = [...runs].sort((a, b) => a.offset - b.offset)
  refuseBrokenRuns(sorted, tokens.length)
  const seed = blockSeed(names)
  const hashes: bigint[] = []
  for (let start = 0; blockSize > 0 && start + blockSize <= tokens.length; start += blockSize) {
    const end = start + blockSize
    const touching = sorted.filter((run) => run.offset < end && run.offset + run.length > start)
    const slots = Array.from(tokens.subarray(start, end), (token, at) =>
      touching.length === 0 ? u32le(token) : slotOf(token, start + at, touching),
    )
    hashes.push(xxh3(joined(...slots), seed))
  }
  return hashes
}

function slotOf(token: number, position: number, runs: readonly MediaRun[]): Uint8Array {
  const run = runs.find(({ offset, length }) => offset <= position && position < offset + length)
  return run
    ? joined(Uint8Array.of(1), u32le(position - run.offset), u64le(run.mmHash))
    : joined(Uint8Array.of(0), u32le(token), u64le(0n))
}

function refuseBrokenRuns(sorted: readonly MediaRun[], tokenCount: number): void {
  let end = 0
  for (const run of sorted) {
    const isSound = Number.isInteger(run.offset) && Number.isInteger(run.length) && run.length > 0
    if (!isSound || run.offset < end || run.offset + run.length > tokenCount) {
      throw new WarmrouteError('WR_INVALID_ARGUMENT', {
        reason: 'media runs are not empty, do not overlap and lie inside the prompt',
        run,
      })
    }
    end = run.offset + run.length
  }
}
