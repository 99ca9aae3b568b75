// Goal: of the searches for a model's source, however they overlap, the one that began last and was not aborted decides; none brings a model back that was removed.
// Method: hubs and engines that answer when a step says so; the same steps drive the service and a note of what must serve.
import { mkdtempSync, rmSync } from 'node:fs'
import { createServer } from 'node:http'
import type { ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import fc from 'fast-check'
import { afterAll, beforeAll, expect, it, vi } from 'vitest'
import type { ModelStatus } from './model-status.js'
import type { ModelSources } from './token-service.js'
import { TokenService } from './token-service.js'

/** What waits for an answer, by the number of its search. */
const asked = new Map<number, ServerResponse>()
const server = createServer((request, response) => asked.set(Number(/^\/(\d+)\//.exec(request.url!)![1]), response))
const cacheFolder = mkdtempSync(join(tmpdir(), 'warmroute-searches-'))
let base: string
beforeAll(async () => {
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  base = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
})
afterAll(async () => {
  rmSync(cacheFolder, { recursive: true, force: true })
  server.closeAllConnections()
  await new Promise((resolve) => server.close(resolve))
})

type Place = 'hub' | 'engine'
interface Search {
  readonly number: number
  readonly place: Place
  readonly stop: AbortController
  readonly outcome: Promise<ModelStatus>
}

async function begin(service: TokenService, model: string, number: number, place: Place): Promise<Search> {
  const stop = new AbortController()
  const url = `${base}/${number}`
  const sources: ModelSources =
    place === 'hub' ? { hub: { endpoint: url, cacheFolder } } : { engine: { url, dialect: 'vllm' } }
  const outcome = service.setModel(model, sources, stop.signal)
  outcome.catch(() => undefined)
  await vi.waitFor(() => expect(asked.has(number)).toBe(true), { interval: 1 })
  return { number, place, stop, outcome }
}

/** The hub has nothing, and says so in a way of its own each time; the engine tells nothing of its tokenizer, and serves. */
async function answer({ number, place, outcome }: Search): Promise<void> {
  asked
    .get(number)!
    .writeHead(place === 'hub' ? 600 + number : 404)
    .end()
  await outcome
}

async function abort({ stop, outcome }: Search): Promise<void> {
  stop.abort(new Error('nobody wants to know'))
  await expect(outcome).rejects.toThrow('nobody wants to know')
}

function expected(served: Search | undefined): Partial<ModelStatus> {
  if (!served) return { source: 'none', reason: 'no source knows the model', tried: [] }
  const { number, place } = served
  return place === 'hub'
    ? { source: 'none', tried: [`the hub answered ${600 + number}`] }
    : { source: 'engine', from: `${base}/${number}` }
}

type Step =
  | { readonly kind: 'begin'; readonly place: Place }
  | { readonly kind: 'answer' | 'abort'; readonly which: number } // one of those that wait
  | { readonly kind: 'remove' }
const anyStep: fc.Arbitrary<Step> = fc.oneof(
  {
    weight: 4,
    arbitrary: fc.record({ kind: fc.constant('begin' as const), place: fc.constantFrom<Place>('hub', 'engine') }),
  },
  { weight: 4, arbitrary: fc.record({ kind: fc.constant('answer' as const), which: fc.nat({ max: 3 }) }) },
  { weight: 2, arbitrary: fc.record({ kind: fc.constant('abort' as const), which: fc.nat({ max: 3 }) }) },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant('remove' as const) }) },
)

it('the search that began last decides', async () => {
  const service = new TokenService({ threads: 1 })
  let models = 0
  const happened = { late: 0, aborted: 0, 'after removal': 0 }
  await fc.assert(
    fc.asyncProperty(fc.array(anyStep, { minLength: 8, maxLength: 16, size: 'max' }), async (steps) => {
      asked.clear()
      const model = `org/model-${models++}`
      const waiting: Search[] = []
      let begun = 0
      let decided = -1
      let served: Search | undefined
      const finish = async (search: Search): Promise<void> => {
        await answer(search)
        if (search.number > decided) {
          served = search
          decided = search.number
        } else happened[served ? 'late' : 'after removal']++
      }
      for (const step of steps) {
        if (step.kind === 'begin') waiting.push(await begin(service, model, begun++, step.place))
        else if (step.kind === 'remove') {
          service.removeModel(model)
          served = undefined
          decided = begun - 1
        } else {
          const [search] = waiting.splice(step.which % Math.max(1, waiting.length), 1)
          if (search && step.kind === 'answer') await finish(search)
          if (search && step.kind === 'abort') {
            await abort(search)
            happened.aborted++
          }
        }
        expect(service.status(model)).toMatchObject(expected(served))
      }
      for (const search of waiting) await finish(search)
      expect(service.status(model)).toMatchObject(expected(served))
    }),
    { numRuns: 40, seed: 1 },
  )
  expect(Math.min(...Object.values(happened))).toBeGreaterThan(0)
  await service.close()
})

it('a search that ends after the service was closed puts nothing to work', async () => {
  asked.clear()
  const service = new TokenService({ threads: 1 })
  const search = await begin(service, 'org/model', 0, 'engine')
  await service.close()
  await answer(search)
  expect(service.modelNames).toEqual([])
})
