/** Worlds in which everything around pairs may go wrong: what engines, connections, routers, workers and clients do. */
import fc from 'fast-check'
import type { ErrorCode } from '../../../src/core/protocol/index.js'
import type { Act, FakePair } from '../../../src/server/pairs/fake-pair.case.js'

export interface Client {
  readonly atMs: number
  readonly isStream: boolean
  readonly maxTokens: number | undefined
  /** Which of a few prompts, the longer the higher. */
  readonly prompt: number
  readonly leavesAfterMs: number | undefined
}

export interface Move {
  readonly atMs: number
  readonly role: 'prefill' | 'decode'
  readonly at: number
  readonly kind: 'joins' | 'leaves' | 'drains'
  /** Of a prefill worker: another size is another pool. */
  readonly blockSize: 16 | 32
}

export interface Step {
  readonly waitMs: number
  readonly fails?: ErrorCode | undefined
}

/** What becomes of a connection that is being opened. */
export type Opening = { readonly kind: 'ok'; readonly afterMs?: number } | { readonly kind: 'refused' | 'hangs' }

/** What a simulated engine is told to do wrong, as a fault script says it. */
export interface Trouble {
  readonly role: 'prefill' | 'decode'
  readonly at: number
  readonly fault: object
}

/** Scripted servers do what each request is told; simulated ones are the simulator's own, with faults armed. */
export type Engines =
  | { readonly kind: 'scripted'; readonly acts: readonly Act[] }
  | {
      readonly kind: 'simulated'
      readonly troubles: readonly Trouble[]
      readonly transferMsPerToken: number
      /** Data-parallel ranks of each engine. */
      readonly ranks: number
    }

export interface World {
  readonly engine: 'vllm' | 'sglang'
  /** Of vLLM. */
  readonly connector: FakePair['connector']
  readonly engines: Engines
  readonly enforce: boolean
  readonly fallsBack: boolean
  readonly isKv: boolean
  /** Conditional disaggregation: a prompt that is mostly cached where it decodes stays there. Only where routers know prompts. */
  readonly isConditional: boolean
  /** In the order in which connections are opened, routers asked and prefill routers made. */
  readonly openings: readonly Opening[]
  readonly steps: readonly Step[]
  readonly builds: readonly Step[]
  readonly clients: readonly Client[]
  readonly moves: readonly Move[]
}

const anyAct: fc.Arbitrary<Act> = fc.oneof(
  { weight: 20, arbitrary: fc.record({ kind: fc.constant('ok' as const), afterMs: fc.nat(60) }) },
  { weight: 1, arbitrary: fc.constant<Act>({ kind: 'hang' }) },
  { weight: 1, arbitrary: fc.constant<Act>({ kind: 'terminal' }) },
  {
    weight: 2,
    arbitrary: fc.record({
      kind: fc.constant('status' as const),
      status: fc.constantFrom(400, 429, 500, 503),
      isInStream: fc.boolean(),
    }),
  },
  { weight: 2, arbitrary: fc.record({ kind: fc.constant('drop' as const), isLate: fc.boolean() }) },
  {
    weight: 1,
    arbitrary: fc.record({
      kind: fc.constant('params' as const),
      params: fc.constantFrom(null, {}, 7, { do_remote_prefill: true, do_remote_decode: false, remote_block_ids: [] }),
    }),
  },
)
const ofPrefill = ['transfer_missing_keys', 'transfer_wrong_port']
const ofBoth = ['status', 'hang_before_headers', 'abort_streams', 'restart']
const ofDecode = ['hang_mid_stream', 'reset_mid_stream', 'trickle']
const anyTrouble: fc.Arbitrary<Trouble> = fc.constantFrom<Trouble['role']>('prefill', 'decode').chain((role) =>
  fc.record({
    role: fc.constant(role),
    at: fc.nat(1),
    fault: fc.record({
      fault: fc.constantFrom(...ofBoth, ...(role === 'prefill' ? ofPrefill : ofDecode)),
      at_ms: fc.nat(400),
      for_ms: fc.integer({ min: 1, max: 300 }),
      count: fc.integer({ min: 1, max: 4 }),
      ms: fc.nat(80),
      status: fc.constantFrom(400, 429, 500, 503),
      after_chunks: fc.nat(3),
    }),
  }),
)
const anyEngines: fc.Arbitrary<Engines> = fc.oneof(
  fc.record({
    kind: fc.constant('scripted' as const),
    acts: fc.array(anyAct, { minLength: 1, maxLength: 24 }),
  }),
  fc.record({
    kind: fc.constant('simulated' as const),
    troubles: fc.array(anyTrouble, { maxLength: 8 }),
    transferMsPerToken: fc.constantFrom(0, 0, 0.1, 1, 4),
    ranks: fc.constantFrom(1, 1, 2),
  }),
)
const anyOpening: fc.Arbitrary<Opening> = fc.oneof(
  { weight: 20, arbitrary: fc.constant<Opening>({ kind: 'ok' }) },
  { weight: 5, arbitrary: fc.record({ kind: fc.constant('ok' as const), afterMs: fc.integer({ min: 1, max: 140 }) }) },
  { weight: 1, arbitrary: fc.constant<Opening>({ kind: 'refused' }) },
  { weight: 1, arbitrary: fc.constant<Opening>({ kind: 'hangs' }) },
)
const anyStep: fc.Arbitrary<Step> = fc.record({
  waitMs: fc.constantFrom(0, 0, 0, 0, 0, 10, 100, 125, 140, 320),
  fails: fc.oneof(
    { weight: 24, arbitrary: fc.constant(undefined) },
    {
      weight: 1,
      arbitrary: fc.constantFrom<ErrorCode>('WR_NO_ENDPOINTS', 'WR_QUEUE_REJECTED', 'WR_ALL_WORKERS_OVERLOADED'),
    },
  ),
})
const anyBuild: fc.Arbitrary<Step> = fc.record({
  waitMs: fc.constantFrom(0, 0, 0, 20, 200),
  fails: fc.constantFrom<ErrorCode | undefined>(undefined, undefined, undefined, 'WR_INVALID_CONFIG'),
})
const anyClient: fc.Arbitrary<Client> = fc.record({
  atMs: fc.nat(400),
  isStream: fc.boolean(),
  maxTokens: fc.constantFrom(undefined, 1, 12),
  prompt: fc.nat(2),
  leavesAfterMs: fc.option(fc.nat(300), { nil: undefined, freq: 2 }),
})
const anyMove: fc.Arbitrary<Move> = fc.record({
  atMs: fc.nat(500),
  role: fc.constantFrom('prefill' as const, 'prefill' as const, 'decode' as const),
  at: fc.nat(1),
  kind: fc.constantFrom('joins' as const, 'joins' as const, 'leaves' as const, 'leaves' as const, 'drains' as const),
  blockSize: fc.constantFrom(16 as const, 16 as const, 16 as const, 32 as const),
})

export const anyWorld: fc.Arbitrary<World> = fc.record({
  engine: fc.constantFrom('vllm' as const, 'vllm' as const, 'sglang' as const),
  connector: fc.constantFrom<FakePair['connector']>('nixl', 'nixl', 'nixl', 'nixl_push', 'mooncake', 'shared_cache'),
  engines: anyEngines,
  enforce: fc.boolean(),
  fallsBack: fc.boolean(),
  isKv: fc.constantFrom(false, false, true),
  isConditional: fc.boolean(),
  openings: fc.array(anyOpening, { minLength: 1, maxLength: 12 }),
  steps: fc.array(anyStep, { minLength: 1, maxLength: 16 }),
  builds: fc.array(anyBuild, { minLength: 1, maxLength: 4 }),
  clients: fc.array(anyClient, { minLength: 1, maxLength: 10 }),
  moves: fc.array(anyMove, { maxLength: 8 }),
})

export function bodyOf({ isStream, maxTokens, prompt }: Pick<Client, 'isStream' | 'maxTokens' | 'prompt'>): object {
  const content = ['how many?', 'how many moons are there?', 'how many moons and how many tides are there in all?'][
    prompt
  ]
  const messages = [{ role: 'user', content }]
  return { model: 'm', messages, stream: isStream, max_tokens: maxTokens, temperature: 0 }
}

export function endless<T>(items: readonly T[]): () => T {
  let at = 0
  return () => items[at++ % items.length]!
}
