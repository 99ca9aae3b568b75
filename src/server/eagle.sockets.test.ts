import { afterEach, expect, it } from 'vitest'
import type { BlockHasher, HashScheme } from '../core/hashing/index.js'
import { BlockHashes, createBlockHasher, createHashScheme } from '../core/hashing/index.js'
import type { RouteRequest } from '../routing/index.js'
import { InProcessRouter } from '../routing/index.js'
import type { House } from './house.case.js'
import { chatBody, openHouse, post } from './house.case.js'

let house: House
afterEach(() => house.close())

it.each([true, false])("hashes prompts as the model's engines name blocks (pairs: %s)", async (isEagle) => {
  const tokens = Uint32Array.from({ length: 40 }, (_, at) => at * 7)
  const hash = (scheme: HashScheme, hasher: BlockHasher): BlockHashes => {
    const hashes = new BlockHashes()
    hasher.hash(tokens, scheme, hashes)
    return hashes
  }
  const router = await InProcessRouter.create({ blockSize: 16, isEagle, config: { useKvEvents: false } })
  const asked: RouteRequest[] = []
  const route = router.route.bind(router)
  router.route = (request) => {
    asked.push(request)
    return route(request)
  }
  const tokenizer = { tokenize: () => ({ tokens, isExact: true, hash }) }
  house = await openHouse({ router, model: { isEagle, tokenizer } })
  expect((await post(house.url, '/v1/chat/completions', chatBody())).status).toBe(200)
  const expected = hash(createHashScheme({ blockSize: 16, isEagle }), createBlockHasher())
  expect(asked[0]!.hashes?.local).toEqual(expected.localColumn())
})

it.each([
  [false, '32'],
  [true, '16'],
])('foretells what the worker will reuse (it gives a block up: %s)', async (givesBlockUp, expected) => {
  const tokens = Uint32Array.from({ length: 40 }, (_, at) => at * 7)
  const router = await InProcessRouter.create({ blockSize: 16, config: { useKvEvents: false } })
  house = await openHouse({ router, engines: 1, model: { tokenizer: { tokenize: () => ({ tokens, isExact: true }) } } })
  const [worker] = house.gateway.workers()
  house.gateway.setWorker('m', { id: 1n, url: worker!.url, engine: 'vllm', givesBlockUp })
  await post(house.url, '/v1/chat/completions', chatBody())
  const again = await post(house.url, '/v1/chat/completions', chatBody())
  expect(again.headers.get('x-warmroute-cached-tokens')).toBe(expected)
})
