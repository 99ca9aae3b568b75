/** Reads the recordings of real engines in `test/fixtures`: what was sent to them, what they answered and published. */
import { readFileSync } from 'node:fs'
import { gunzipSync } from 'node:zlib'

export interface RecordedFrame {
  readonly kind: 'zmq'
  readonly step: string
  readonly port: number
  /** Hex of topic, sequence (u64 big-endian), payload. */
  readonly frames: readonly [string, string, string]
}

export interface RecordedExchange {
  readonly kind: 'http'
  readonly step: string
  readonly side?: string
  readonly request: {
    readonly method: string
    readonly path: string
    readonly headers?: Readonly<Record<string, string>>
    readonly body: unknown
  }
  readonly status: number
  readonly response_text?: string
  readonly t_send: number
  readonly t_end: number
}

export interface RecordedNote {
  readonly kind: 'note'
  readonly step: string
}

export type RecordedLine = RecordedFrame | RecordedExchange | RecordedNote

/** One replay request and every reply, as a DEALER sees them, in hex. */
export interface RecordedReplay {
  readonly label: string
  readonly request_frames_hex: readonly string[]
  readonly reply_frames_hex: readonly (readonly string[])[]
  readonly end_marker_seen: boolean
}

export const eventRecordings = [
  'vllm/kv-events',
  'vllm/kv-events-bytes-sha256cbor',
  'vllm/kv-events-concurrent',
  'vllm/dp2',
  'vllm/pd-nixl',
  'sglang/kv-events',
] as const

export const replayRecordings = ['vllm/replay', 'vllm/replay-dp2', 'sglang/replay'] as const

export function readRecording(name: (typeof eventRecordings)[number]): RecordedLine[] {
  return readLines(`${name}.jsonl.gz`) as RecordedLine[]
}

export function readReplays(name: (typeof replayRecordings)[number]): RecordedReplay[] {
  return readLines(`${name}.jsonl.gz`) as RecordedReplay[]
}

export function readText(name: string): string {
  const bytes = readFileSync(new URL(`fixtures/${name}`, import.meta.url))
  return (name.endsWith('.gz') ? gunzipSync(bytes) : bytes).toString('utf8')
}

export function fromHex(hex: string): Uint8Array {
  return Uint8Array.from(Buffer.from(hex, 'hex'))
}

function readLines(name: string): unknown[] {
  return readText(name)
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => JSON.parse(line) as unknown)
}
