import { expect, it } from 'vitest'
import type { EngineFacts } from '../../engines/index.js'
import { isOtherShape, roleOf, transferOf } from './joined.js'
import type { WorkerAddress, WorkerKeeper } from './worker-keeper.js'

function fact<T>(value: T) {
  return { value, source: 'test' }
}

const before: EngineFacts = { kind: fact('sglang'), blockSize: fact(16), dpRanks: fact(2) }

it.each<[says: string, change: Partial<EngineFacts>, isOther: boolean]>([
  ['the same again', {}, false],
  ['another version', { version: fact('2') }, false],
  ['another engine', { kind: fact('vllm') }, true],
  ['blocks named by pairs of tokens', { isEagle: fact(true) }, true],
  ['another block size', { blockSize: fact(32) }, true],
  ['another number of ranks', { dpRanks: fact(1) }, true],
  ['another half of pairs', { role: fact('prefill') }, true],
  ['another way to hand KV on', { connector: fact('mooncake') }, true],
  ['another way that we do not speak', { unspokenConnector: fact('P2pNcclConnector') }, true],
])('an engine that comes back as %s', (_, change, isOther) => {
  expect(isOtherShape({ ...before, ...change }, before)).toBe(isOther)
})

it.each([
  ['what the engine calls a connector that we do not speak', {}, [undefined, 'P2pNcclConnector']],
  ['what its owner calls it', { transfer: { connector: 'nixl' as const } }, ['nixl', undefined]],
])('hands KV on by %s', (_, address, said) => {
  const keeper = { address: { url: 'http://x', ...address } } as WorkerKeeper
  const facts: EngineFacts = { kind: fact('vllm'), unspokenConnector: fact('P2pNcclConnector') }
  const { connector, unspoken } = transferOf(keeper, facts)
  expect([connector, unspoken]).toEqual(said)
})

it.each<[says: string, address: Partial<WorkerAddress>, engine: 'prefill' | undefined, role: string]>([
  [
    'what its owner says, whatever its labels',
    { role: 'aggregated', labels: { 'llm-d.ai/role': 'decode' } },
    undefined,
    'aggregated',
  ],
  ['what its labels say, whatever the engine', { labels: { 'llm-d.ai/role': 'decode' } }, 'prefill', 'decode'],
  ['what the engine says, where the labels do not', { labels: { app: 'x' } }, 'prefill', 'prefill'],
  ['everything, where nobody says', {}, undefined, 'aggregated'],
])('a worker does %s', (_, address, engine, role) => {
  const keeper = { address: { url: 'http://x', ...address } } as WorkerKeeper
  expect(roleOf(keeper, { ...before, ...(engine && { role: fact(engine) }) })).toBe(role)
})
