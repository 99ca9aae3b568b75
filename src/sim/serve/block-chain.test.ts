import { readFileSync } from 'node:fs'
import { gunzipSync } from 'node:zlib'
import { decode } from '@msgpack/msgpack'
import { expect, it } from 'vitest'
import { createBlockChain, publishedHash } from './block-chain.js'
import type { CacheScope } from './block-chain.js'
import { TokenContent } from './token-content.js'
import type { EngineName } from './engine-name.js'

function hashes(engine: EngineName, scope: CacheScope, seed: string): bigint[] {
  const content = new TokenContent([1, 2, 3, 4, 5, 6, 7, 8], 4, createBlockChain(engine, scope, seed))
  return [0, 1].map((index) => publishedHash(engine, content.digestAt(index)))
}

// Tokens 1 to 8, blocks of 4; computed with the engines' own Python code.
it.each([
  { engine: 'vllm', scope: {}, seed: '0', wanted: [2164874634404590027n, 17270480062156288726n] },
  { engine: 'vllm', scope: {}, seed: '42', wanted: [5988051177307384287n, 11214766589215907092n] },
  { engine: 'vllm', scope: {}, seed: 'vllm-none-hash', wanted: [9561501211280363793n, 15292913576410714033n] },
  { engine: 'sglang', scope: {}, seed: '', wanted: [-3488128144981237669n, 5674439469042975057n] },
  { engine: 'sglang', scope: { salt: 'tenant-a' }, seed: '', wanted: [3718046898735569995n, 3308615664605479373n] },
] as const)('names blocks as $engine does (seed $seed, $scope)', ({ engine, scope, seed, wanted }) => {
  expect(hashes(engine, scope, seed)).toEqual(wanted)
})

interface RecordedStore {
  readonly block_hashes: readonly Uint8Array[]
  readonly parent_block_hash: Uint8Array | null
  readonly token_ids: readonly number[]
  readonly extra_keys: readonly (readonly string[] | null)[]
}

it('computes every digest that a real vLLM published as bytes, salted ones too', () => {
  const lines = gunzipSync(readFileSync('test/fixtures/vllm/kv-events-bytes-sha256cbor.jsonl.gz')).toString().trim()
  let checked = 0
  for (const line of lines.split('\n')) {
    const json = JSON.parse(line) as { kind: string; frames: string[] }
    if (json.kind !== 'zmq') continue
    const [, events] = decode(Buffer.from(json.frames[2]!, 'hex')) as [number, RecordedStore[]]
    for (const event of events) {
      if (!event.token_ids) continue
      const salt = event.extra_keys[0]?.[0]
      const chain = createBlockChain('vllm', salt === undefined ? {} : { salt }, '0')
      let parent = event.parent_block_hash ?? undefined
      for (const [index, wanted] of event.block_hashes.entries()) {
        parent = chain.next(parent, event.token_ids, index * 32, (index + 1) * 32)
        expect(Buffer.from(parent).toString('hex')).toBe(Buffer.from(wanted).toString('hex'))
        checked++
      }
    }
  }
  expect(checked).toBeGreaterThan(4)
})

it('separates what may not be shared, even where the published hash does not', () => {
  const key = (engine: EngineName, scope: CacheScope): number =>
    new TokenContent([1, 2, 3, 4], 4, createBlockChain(engine, scope, '0')).keyAt(0)
  const scopes: CacheScope[] = [{}, { salt: 'a' }, { loraName: 'a' }, { extraKey: 'a' }]
  expect(new Set(scopes.map((scope) => key('sglang', scope))).size).toBe(4)
  expect(new Set(scopes.slice(0, 3).map((scope) => key('vllm', scope))).size).toBe(3)
  expect(hashes('sglang', { extraKey: 'a' }, '')).toEqual(hashes('sglang', {}, ''))
})
