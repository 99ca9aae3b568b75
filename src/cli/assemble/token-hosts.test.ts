import { expect, it } from 'vitest'
import type { EngineKind } from '../../engines/index.js'
import type { ModelSources, ModelStatus } from '../../tokens/index.js'
import type { Joined } from './joined.js'
import { preferredHost, rulesOf, TokenHosts } from './token-hosts.js'

function worker(id: bigint, kind: EngineKind) {
  return { keeper: { id }, facts: { kind: { value: kind, source: 'test' } } }
}

it.each<[says: string, kinds: readonly EngineKind[], id: bigint | undefined]>([
  ['nobody, where no engine can be asked', ['unknown'], undefined],
  ['a vLLM before all others', ['trtllm', 'sglang', 'unknown', 'vllm'], 4n],
  ['an SGLang before TensorRT-LLM', ['trtllm', 'sglang'], 2n],
  ['the lowest id of one kind', ['sglang', 'vllm', 'vllm'], 2n],
])('asks %s, in whatever order they joined', (_, kinds, id) => {
  const workers = kinds.map((kind, at) => worker(BigInt(at + 1), kind))
  expect(preferredHost(workers)?.keeper.id).toBe(id)
  expect(preferredHost(workers.toReversed())?.keeper.id).toBe(id)
})

/** Workers of model `m`; `mute` are those that give no tokens. An answer is there when `answer` is called. */
function fleet(...kinds: readonly EngineKind[]) {
  const joined = kinds.map((kind, at) => ({
    ...worker(BigInt(at + 1), kind),
    keeper: { id: BigInt(at + 1), address: { url: `http://gpu${at + 1}` } },
    runtime: { name: 'm', looksAtCaches: true },
  })) as unknown as Joined[]
  const state = { joined, nowMs: 0, mute: new Set<string>(), asked: [] as string[], answer: () => {} }
  /** Who is asked for the workers of other kinds. */
  const others = new Map<string, string>()
  let from: string | undefined
  const status = (): ModelStatus => ({ source: 'engine', from, encoder: 'engine', reason: undefined, tried: [] })
  const setModel = async (_: string, { engine }: ModelSources): Promise<ModelStatus> => {
    state.asked.push(engine!.url)
    await new Promise<void>((resolve) => (state.answer = resolve))
    from = engine!.url
    return status()
  }
  const hosts = new TokenHosts({
    tokens: {
      announce: () => {},
      status,
      isMute: (_, dialect) => state.mute.has((dialect === undefined ? from : others.get(dialect)) ?? ''),
      setModel,
      replaceModel: setModel,
      setOther: (_, dialect, other) => void others.set(dialect, other!.engine!.url),
    },
    places: undefined,
    joined: () => state.joined,
    failed: () => {},
    signal: new AbortController().signal,
    now: () => state.nowMs,
  })
  return { hosts, state, others }
}

async function turn(): Promise<void> {
  await new Promise((resolve) => setImmediate(resolve))
}

it('another engine of its kind is asked where the present one gives no tokens, and none while that is being asked', async () => {
  const { hosts, state } = fleet('vllm', 'sglang', 'vllm', 'vllm')
  const found = hosts.find('m')
  state.answer()
  await found
  hosts.relieve()
  expect(state.asked).toEqual(['http://gpu1'])
  state.mute.add('http://gpu1').add('http://gpu3')
  hosts.relieve()
  hosts.relieve()
  expect(state.asked).toEqual(['http://gpu1', 'http://gpu3'])
  state.answer()
  await turn()
  hosts.relieve()
  state.answer()
  await turn()
  hosts.relieve()
  expect(state.asked).toEqual(['http://gpu1', 'http://gpu3', 'http://gpu4'])
})

it('one that gave no tokens is asked again only when it has rested, and never where nobody else is of its kind', async () => {
  const { hosts, state } = fleet('vllm', 'vllm', 'sglang')
  const found = hosts.find('m')
  state.answer()
  await found
  state.mute.add('http://gpu1').add('http://gpu2')
  hosts.relieve()
  state.answer()
  await turn()
  state.nowMs = 59_999
  hosts.relieve()
  expect(state.asked).toEqual(['http://gpu1', 'http://gpu2'])
  state.nowMs = 60_000
  hosts.relieve()
  expect(state.asked).toEqual(['http://gpu1', 'http://gpu2', 'http://gpu1'])
  state.answer()
  await turn()
  state.joined.splice(1, 1)
  state.nowMs = 200_000
  hosts.relieve()
  expect(state.asked).toHaveLength(3)
})

it('so it is with the engine that is asked for the workers of another kind, which stays the one whoever joins', async () => {
  const { hosts, state, others } = fleet('vllm', 'sglang', 'sglang')
  const found = hosts.find('m')
  state.answer()
  await found
  expect(others.get('sglang')).toBe('http://gpu2')
  state.mute.add('http://gpu2')
  hosts.relieve()
  expect(others.get('sglang')).toBe('http://gpu3')
  await hosts.find('m') // as when another worker joins
  expect(others.get('sglang')).toBe('http://gpu3')
  state.mute.add('http://gpu3')
  hosts.relieve()
  expect(others.get('sglang')).toBe('http://gpu3') // the other one has not rested yet
  state.nowMs = 60_000
  hosts.relieve()
  expect(others.get('sglang')).toBe('http://gpu2')
  expect(state.asked).toEqual(['http://gpu1'])
  state.joined.splice(1, 1)
  hosts.left({ ...state.joined[0]!, keeper: { id: 2n } } as Joined)
  expect(others.get('sglang')).toBe('http://gpu3')
})

it('hands on what an engine tells of its templates and media', () => {
  const told = <Value>(value: Value) => ({ value, source: '/server_info' })
  const facts = { kind: told('sglang' as const), otherTemplates: told({ chats: 'so' }), takesMedia: told(false) }
  expect(rulesOf(facts, 'sglang')).toMatchObject({
    dialect: 'sglang',
    otherTemplates: { chats: 'so' },
    takesMedia: false,
  })
})
