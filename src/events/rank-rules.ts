/** What the machine of a rank is made of: its states, why it purges, what it asks of others, its limits and counters. */
import type { DecodeReason } from './decoded-batch.js'

export type RankState = 'connecting' | 'recovering' | 'live' | 'suspect' | 'gone'

/** Why everything known of a rank was dropped. Stable: they are metric labels. */
export const purgeReasons = [
  'gap',
  'restart',
  'history_gone',
  'replay_failed',
  'replay_hole',
  'reconnect',
  'silence',
  'overrun',
  'undecodable',
  'over_capacity',
  'left',
] as const

export type PurgeReason = (typeof purgeReasons)[number]

export interface RankEffects {
  /** Decodes and applies one batch; answers why it could not. */
  apply(payload: Uint8Array): DecodeReason | undefined
  /** Drops all that is known of the rank. */
  purge(reason: PurgeReason): void
  /** Asks for every batch from `from` on. Answers come back under `ticket`; those of an older ticket are ignored. */
  requestReplay(from: number, ticket: number): void
  /** What a snapshot gave was proved by the engine, or is gone. Once, and only where there was something. */
  restored?(isProved: boolean): void
  /** The time inside a payload, in seconds; NaN if it has none. */
  timestampOf(payload: Uint8Array): number
}

export interface RankLimits {
  /** Frames and bytes that may wait while a replay runs. Beyond: the flood is dropped and the rank starts over. */
  readonly heldFramesMax: number
  readonly heldBytesMax: number
  /** A replay that shows nothing for this long has failed. */
  readonly replayMs: number
  readonly replayAttemptsMax: number
  readonly retryMs: number
  /** How long knowledge outlives its connection. */
  readonly suspectMs: number
  /** A silent rank is asked for its last batch this often, so that a lost last batch is found. */
  readonly probeMs: number
  readonly overrunMs: number
}

export const defaultRankLimits: RankLimits = {
  heldFramesMax: 4096,
  heldBytesMax: 8 << 20,
  replayMs: 5000,
  replayAttemptsMax: 3,
  retryMs: 200,
  suspectMs: 10_000,
  probeMs: 30_000,
  overrunMs: 1000,
}

export interface MachineCounters {
  frames: number
  applied: number
  stale: number
  gaps: number
  restarts: number
  replays: number
  replayFailures: number
  probes: number
  overruns: number
  droppedFrames: number
  undecodable: number
  purges: number
}
