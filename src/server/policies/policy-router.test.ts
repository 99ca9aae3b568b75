import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import type { PolicyName } from './pick-rank.js'
import { pickRank, policyNames } from './pick-rank.js'
import { createPolicyRouter } from './policy-router.js'

function rows(...loads: readonly (readonly [requests: number, tokens: number])[]) {
  return loads.map(([activeRequests, activeTokens], at) => ({
    workerId: BigInt(at),
    dpRank: 0,
    activeRequests,
    activeTokens,
  }))
}

describe('a policy picks', () => {
  it.each<[PolicyName, number, readonly number[], number]>([
    ['round-robin', 0, [], 0],
    ['round-robin', 4, [], 1],
    ['random', 0, [0.99], 2],
    ['least-loaded', 0, [], 1],
    ['token-balance', 0, [], 2],
    ['power-of-two', 0, [0, 0], 1], // draws 0 and 1, and 1 has fewer requests
    ['power-of-two', 0, [0.99, 0], 0], // draws 2 and 0, equal: the first drawn would be 2 if it had fewer
  ])('%s in turn %i with draws %j', (policy, turn, draws, expected) => {
    const left = [...draws]
    const three = rows([3, 30], [1, 90], [4, 10])
    expect(Number(pickRank(policy, three, turn, () => left.shift() ?? 0).workerId)).toBe(expected)
  })

  it('ties go round, so that idle ranks share', () => {
    const idle = rows([0, 0], [0, 0], [0, 0])
    expect([0, 1, 2, 3].map((turn) => Number(pickRank('least-loaded', idle, turn, () => 0).workerId))).toEqual([
      0, 1, 2, 0,
    ])
  })
})

type Step =
  | { readonly kind: 'route'; readonly id: number; readonly tokens: number }
  | { readonly kind: 'free'; readonly id: number }
  | { readonly kind: 'set'; readonly worker: number; readonly ranks: number }
  | { readonly kind: 'remove'; readonly worker: number }

const anyStep: fc.Arbitrary<Step> = fc.oneof(
  fc.record({ kind: fc.constant('route' as const), id: fc.nat(6), tokens: fc.nat(9) }),
  fc.record({ kind: fc.constant('free' as const), id: fc.nat(6) }),
  fc.record({ kind: fc.constant('set' as const), worker: fc.nat(2), ranks: fc.integer({ min: 1, max: 2 }) }),
  fc.record({ kind: fc.constant('remove' as const), worker: fc.nat(2) }),
)

// Goal: no order of requests, frees, joins and leaves makes a rank carry what it does not. Method: a list, recounted.
it.each(policyNames.filter((name) => name !== 'direct'))(
  '%s carries exactly what a recount carries',
  async (policy) => {
    await fc.assert(
      fc.asyncProperty(fc.array(anyStep, { maxLength: 40 }), async (steps) => {
        const router = createPolicyRouter({ policy, random: () => 0.5 })
        let held: { id: number; key: string; tokens: number }[] = []
        const ranks = new Set<string>()
        for (const step of steps) {
          if (step.kind === 'set') {
            router.setWorker(BigInt(step.worker), { dataParallelStartRank: 0, dataParallelSize: step.ranks })
            for (let rank = 0; rank < 2; rank++) {
              const key = `${step.worker}/${rank}`
              if (rank < step.ranks) ranks.add(key)
              else if (ranks.delete(key)) held = held.filter((it) => it.key !== key)
            }
          } else if (step.kind === 'remove') {
            router.removeWorker(BigInt(step.worker))
            for (const key of ranks) if (key.startsWith(`${step.worker}/`)) ranks.delete(key)
            held = held.filter((it) => !it.key.startsWith(`${step.worker}/`))
          } else if (step.kind === 'free') {
            router.free(String(step.id))
            held = held.filter((it) => it.id !== step.id)
          } else {
            const isTaken = held.some((it) => it.id === step.id)
            const answer = await router
              .route({ requestId: String(step.id), tokenCount: step.tokens })
              .catch(() => undefined)
            if (answer && !isTaken)
              held.push({ id: step.id, key: `${answer.workerId}/${answer.dpRank}`, tokens: step.tokens })
          }
          const loads = await router.loads()
          expect(new Set(loads.map((load) => `${load.workerId}/${load.dpRank}`))).toEqual(ranks)
          for (const load of loads) {
            const mine = held.filter((it) => it.key === `${load.workerId}/${load.dpRank}`)
            expect(load.activeRequests).toBe(mine.length)
            expect(load.activePrefillTokens).toBe(mine.reduce((sum, it) => sum + it.tokens, 0))
          }
        }
      }),
      { numRuns: 60 },
    )
  },
)

it.each(policyNames.filter((name) => name !== 'direct'))('%s: who only asks takes no turn', async (policy) => {
  const router = createPolicyRouter({ policy, random: () => 0 })
  for (const id of [1n, 2n, 3n]) router.setWorker(id, { dataParallelStartRank: 0, dataParallelSize: 1 })
  const chosen: bigint[] = []
  for (let at = 0; at < 6; at++) {
    const asked = new Set<bigint>()
    for (let time = 0; time <= at; time++)
      asked.add((await router.route({ requestId: `r${at}`, isQueryOnly: true })).workerId)
    chosen.push((await router.route({ requestId: `r${at}`, tokenCount: 1 })).workerId)
    expect([...asked]).toEqual([chosen.at(-1)]) // it was told where it will go
  }
  if (policy === 'round-robin') expect(chosen).toEqual([1n, 2n, 3n, 1n, 2n, 3n])
})

describe('who may serve', () => {
  async function served(request: object): Promise<string> {
    const router = createPolicyRouter({ policy: 'round-robin' })
    for (const id of [1n, 2n])
      router.setWorker(id, { dataParallelStartRank: 0, dataParallelSize: 2, taints: new Set(id === 2n ? ['big'] : []) })
    try {
      const { workerId, dpRank } = await router.route({ requestId: 'r', ...request })
      return `${workerId}/${dpRank}`
    } catch (error) {
      return (error as { code: string }).code
    }
  }

  it.each([
    ['a pin with a rank', { pin: { workerId: 2n, dpRank: 1 } }, '2/1'],
    ['a pin without one', { pin: { workerId: 2n } }, '2/0'],
    ['a pin on nobody', { pin: { workerId: 9n } }, 'WR_NO_ENDPOINTS'],
    ['one left out', { excludedWorkerIds: new Set([1n]) }, '2/0'],
    ['all left out', { excludedWorkerIds: new Set([1n, 2n]) }, 'WR_NO_ENDPOINTS'],
    ['one allowed', { allowedWorkerIds: new Set([2n]) }, '2/0'],
    ['a label that one has', { requiredTaints: ['big'] }, '2/0'],
    ['a label that nobody has', { requiredTaints: ['huge'] }, 'WR_NO_ENDPOINTS'],
  ])('%s', async (_says, request, expected) => {
    expect(await served(request)).toBe(expected)
  })

  it('direct needs to be told', async () => {
    const router = createPolicyRouter({ policy: 'direct' })
    router.setWorker(1n, { dataParallelStartRank: 0, dataParallelSize: 1 })
    await expect(router.route({ requestId: 'r' })).rejects.toMatchObject({ code: 'WR_INVALID_ARGUMENT' })
    expect(await router.route({ requestId: 'r', pin: { workerId: 1n } })).toMatchObject({ workerId: 1n })
  })
})
