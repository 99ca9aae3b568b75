/** From tokens to block hashes, byte for byte as the engines' side computes them. */
export type { HashBackendName } from './backend.js'
export { BlockHasher, createBlockHasher } from './block-hasher.js'
export type { BlockHasherOptions, ExtendOptions } from './block-hasher.js'
export { BlockHashes } from './block-hashes.js'
export { padValue, toBlockExtraInfo, toBlockMedia } from './block-media.js'
export type { BlockMedia } from './block-media.js'
export { computeBlockHashes, computeSequenceHashes, nextSequenceHash, toTokens } from './compute.js'
export type { ComputeOptions } from './compute.js'
export { computeFramedBlockHashes } from './framed-blocks.js'
export type { MediaRun } from './framed-blocks.js'
export { fromBytes128, toBytes128 } from './hash128.js'
export { baseSeed, blockCountOf, blockSeed, createHashScheme, isSameScheme, xxh3 } from './hash-scheme.js'
export type { HashScheme, HashSchemeOptions, PromptNames } from './hash-scheme.js'
export { instantiateKernel } from './instantiate-kernel.js'
export { extendLineage, packLineage, unpackLineage } from './lineage-hash.js'
export type { Lineage } from './lineage-hash.js'
export { computePageHashes } from './page-hashes.js'
export type { PageCut } from './page-hashes.js'
export { packPositional, unpackPositional } from './positional-hash.js'
export type { Positional } from './positional-hash.js'
export { residencyOwnerKey } from './residency-owner-key.js'
export { TokensWithHashes } from './tokens-with-hashes.js'
export { createTrackingHashing, fillTrackingHashes } from './tracking-hash.js'
export type {
  TrackingHashing,
  TrackingHashOptions,
  TrackingRequest,
  TrackingScope,
} from './tracking-hash.js'
