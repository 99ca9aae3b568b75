import { readFileSync } from 'node:fs'
import { gunzipSync } from 'node:zlib'
import { decode } from '@msgpack/msgpack'
import { expect, it } from 'vitest'
import type { EngineName } from './engine-name.js'
import type { KvEvent, Medium } from './kv-event.js'
import { encodeBatch, wireForm } from './kv-wire.js'

interface RecordedEvent {
  readonly type: string
  readonly block_hashes: readonly (bigint | Uint8Array)[]
  readonly parent_block_hash: bigint | Uint8Array | null
  readonly token_ids: readonly number[]
  readonly block_size: number
  readonly medium: Medium
  readonly extra_keys?: readonly (readonly string[] | null)[]
  readonly cache_salt?: string
  readonly session_id?: string
}

/** A digest that is published as the recorded value. */
function digestOf(engine: EngineName, hash: bigint | Uint8Array): Uint8Array {
  if (hash instanceof Uint8Array) return hash
  const digest = Buffer.alloc(32)
  if (engine === 'vllm') digest.writeBigUInt64BE(hash, 24)
  else digest.writeBigInt64BE(BigInt.asIntN(64, hash), 0)
  return digest
}

function toEvent(engine: EngineName, event: RecordedEvent): KvEvent {
  if (event.type === 'AllBlocksCleared') return { kind: 'cleared' }
  const hashes = event.block_hashes.map((hash) => digestOf(engine, hash))
  if (event.type === 'BlockRemoved') return { kind: 'removed', hashes, medium: event.medium }
  const salt = event.cache_salt ?? event.extra_keys?.[0]?.[0]
  return {
    kind: 'stored',
    hashes,
    parent: event.parent_block_hash === null ? undefined : digestOf(engine, event.parent_block_hash),
    tokens: event.token_ids.map(Number),
    blockTokens: Number(event.block_size),
    medium: event.medium,
    firstBlock: event.parent_block_hash === null ? 0 : 1,
    salt,
    sessionId: event.session_id,
  }
}

it.each([
  { engine: 'vllm', version: '0.32.0', file: 'vllm/kv-events.jsonl.gz', hashes: 'integers' },
  { engine: 'vllm', version: '0.32.0', file: 'vllm/kv-events-bytes-sha256cbor.jsonl.gz', hashes: 'bytes' },
  { engine: 'vllm', version: '0.32.0', file: 'vllm/dp2.jsonl.gz', hashes: 'integers' },
  { engine: 'sglang', version: '0.5.23', file: 'sglang/kv-events.jsonl.gz', hashes: 'integers' },
] as const)('writes every payload of $file byte for byte', ({ engine, version, file, hashes }) => {
  const lines = gunzipSync(readFileSync(`test/fixtures/${file}`))
    .toString()
    .trim()
    .split('\n')
  let payloads = 0
  for (const line of lines) {
    const json = JSON.parse(line) as { kind: string; frames: string[] }
    if (json.kind !== 'zmq') continue
    const bytes = Buffer.from(json.frames[2]!, 'hex')
    const [seconds, events, rank] = decode(bytes, { useBigInt64: true }) as [number, RecordedEvent[], number]
    const form = wireForm(engine, version, hashes)
    const ours = encodeBatch(
      form,
      seconds,
      events.map((event) => toEvent(engine, event)),
      Number(rank),
    )
    expect(Buffer.from(ours).toString('hex')).toBe(json.frames[2])
    payloads++
  }
  expect(payloads).toBeGreaterThan(5)
})

const stored: KvEvent = {
  kind: 'stored',
  hashes: [digestOf('vllm', 7n)],
  parent: undefined,
  tokens: [1, 2],
  blockTokens: 2,
  medium: 'GPU',
  loraName: 'french',
  loraId: 3,
  salt: 's',
  firstBlock: 0,
  sessionId: 'x',
}

// Positions by version: spec/engines.md 2.3 and 2.4 restated as examples.
it.each([
  ['vllm', '0.10.1', ['BlockStored', [7n], null, [1, 2], 2, 3]],
  ['vllm', '0.13.0', ['BlockStored', [7n], null, [1, 2], 2, 3, 'GPU']],
  ['vllm', '0.14.0', ['BlockStored', [7n], null, [1, 2], 2, 3, 'GPU', 'french']],
  ['vllm', '0.17.0', ['BlockStored', [7n], null, [1, 2], 2, 3, 'GPU', 'french', [['french', 's']]]],
  ['vllm', '0.20.0', ['BlockStored', [7n], null, [1, 2], 2, 3, 'GPU', 'french', [['french', 's']], 0]],
  [
    'vllm',
    '0.22.0',
    ['BlockStored', [7n], null, [1, 2], 2, 3, 'GPU', 'french', [['french', 's']], 0, 'full_attention', null],
  ],
  ['sglang', '0.5.8', ['BlockStored', [0n], null, [1, 2], 2, null]],
  ['sglang', '0.5.17', ['BlockStored', [0n], null, [1, 2], 2, null, 'GPU']],
  ['sglang', '0.5.18', ['BlockStored', [0n], null, [1, 2], 2, null, 'GPU', { cache_salt: 's' }]],
] as const)('writes a stored block as %s %s does', (engine, version, wanted) => {
  const bytes = encodeBatch(wireForm(engine, version), 1.5, [stored, { kind: 'cleared' }], 1)
  const text = (value: unknown) => JSON.stringify(value, (_, it) => (typeof it === 'bigint' ? Number(it) : it))
  expect(text(decode(bytes, { useBigInt64: true }))).toBe(text([1.5, [wanted, ['AllBlocksCleared']], 1]))
})

it.each([
  ['vllm', '0.25.0', false],
  ['vllm', '0.26.0', true],
  ['sglang', '0.5.18', false],
  ['sglang', '0.5.23', true],
] as const)('replays as %s %s: with the topic, %s', (engine, version, isTopicReplayed) => {
  expect(wireForm(engine, version).isTopicReplayed).toBe(isTopicReplayed)
})
