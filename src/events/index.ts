/** KV event intake: from an engine's frames to applied batches, with gaps found and repaired. */
export {
  attentionCode,
  DecodedBatch,
  decodeReasons,
  eventKind,
  localityCode,
  ownershipCode,
  tierCode,
} from './decoded-batch.js'
export type { BatchDecoder, DecodeReason } from './decoded-batch.js'
