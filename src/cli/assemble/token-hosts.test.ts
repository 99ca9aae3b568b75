import { expect, it } from 'vitest'
import type { EngineFacts, EngineKind } from '../../engines/index.js'
import type { ModelSources, ModelStatus } from '../../tokens/index.js'
import type { Joined } from './joined.js'
import { preferredHost, TokenHosts } from './token-hosts.js'

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
  const state = {
    joined,
    nowMs: 0,
    mute: new Set<string>(),
    asked: [] as string[],
    answer: () => {},
    source: 'engine' as ModelStatus['source'],
    rules: undefined as ModelSources['rules'],
    otherRules: undefined as ModelSources['rules'],
  }
  /** Who is asked for the workers of other kinds. */
  const others = new Map<string, string>()
  let from: string | undefined
  const status = (): ModelStatus => ({ source: state.source, from, encoder: 'engine', reason: undefined, tried: [] })
  const setModel = async (_: string, { engine, rules }: ModelSources): Promise<ModelStatus> => {
    state.asked.push(engine!.url)
    await new Promise<void>((resolve) => (state.answer = resolve))
    from = engine!.url
    state.rules = rules
    return status()
  }
  const hosts = new TokenHosts({
    tokens: {
      announce: () => {},
      status,
      isMute: (_, dialect) => state.mute.has((dialect === undefined ? from : others.get(dialect)) ?? ''),
      setModel,
      replaceModel: setModel,
      setOther: (_, dialect, other) => {
        others.set(dialect, other!.engine!.url)
        state.otherRules = other!.rules
      },
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

/** As if it had been started so. */
function settings(joined: Joined, chats?: string): EngineFacts {
  return { ...joined.facts, otherTemplates: { value: chats === undefined ? {} : { chats }, source: 'test' } }
}

const ofItsOwn = 'it was started with --chat-template'

it.each(['engine', 'configured'] as const)(
  'one engine with settings of its own decides for all of its kind while it is there; tokens of: %s',
  async (source) => {
    const { hosts, state } = fleet('sglang', 'sglang')
    state.source = source
    const second = state.joined.pop()!
    const found = hosts.find('m')
    state.answer()
    await found
    expect(state.rules?.otherTemplates).toEqual({})
    state.joined.push(second)
    await hosts.find('m')
    expect(state.asked).toHaveLength(1) // it was started like the first
    state.joined.pop()
    hosts.left(second)
    expect(state.asked).toHaveLength(1)
    second.facts = settings(second, ofItsOwn)
    state.joined.push(second)
    const joining = hosts.find('m')
    state.answer()
    await joining
    expect(state.rules?.otherTemplates).toEqual({ chats: ofItsOwn })
    state.joined.pop()
    hosts.left(second)
    state.answer()
    await turn()
    expect(state.rules?.otherTemplates).toEqual({})
    expect(state.asked).toEqual(['http://gpu1', 'http://gpu1', 'http://gpu1'])
  },
)

it.each(['engine', 'configured'] as const)(
  'an engine that was restarted with other settings has others from then on; tokens of: %s',
  async (source) => {
    const { hosts, state } = fleet('sglang')
    state.source = source
    const found = hosts.find('m')
    state.answer()
    await found
    const only = state.joined[0]!
    only.facts = settings(only, ofItsOwn)
    hosts.left(only) // and is still there
    state.answer()
    await turn()
    expect(state.rules?.otherTemplates).toEqual({ chats: ofItsOwn })
  },
)

it('so it is with engines of another kind', async () => {
  const { hosts, state } = fleet('vllm', 'sglang', 'sglang')
  const third = state.joined.pop()!
  const found = hosts.find('m')
  state.answer()
  await found
  third.facts = settings(third, ofItsOwn)
  state.joined.push(third)
  await hosts.find('m')
  expect(state.otherRules?.otherTemplates).toEqual({ chats: ofItsOwn })
  state.joined.pop()
  hosts.left(third)
  expect(state.otherRules?.otherTemplates).toEqual({})
  expect(state.asked).toEqual(['http://gpu1'])
})
