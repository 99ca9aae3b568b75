// Tokenizers are replaced by hand while requests run.
import { cpSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, afterEach, beforeEach, expect, it } from 'vitest'
import { InProcessRouter } from '../../routing/index.js'
import type { ModelStatus } from '../../tokens/index.js'
import { TokenService } from '../../tokens/index.js'
import { errorOf, houseOfEachTest, json, post } from '../house.case.js'
import { hashKey } from '../http/keys.js'
import type { House } from '../house.case.js'
import type { GatewayOptions } from '../options.js'
import type { PromptTokenizer } from '../request/prompt.js'
import { createServiceTokenizer } from '../request/service-tokenizer.js'

const open = houseOfEachTest()
const tinyllama = 'test/fixtures/tinyllama'
const service = new TokenService({ threads: 1 })
afterAll(() => service.close())

/** A folder of its own, whose files a test may change. */
let folder = ''
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'warmroute-replaced-'))
  cpSync(tinyllama, folder, { recursive: true })
})
afterEach(() => rmSync(folder, { recursive: true }))

/** A tokenizer of three words. */
function writeWords(): void {
  const model = { type: 'WordLevel', unk_token: 'x', vocab: { x: 0, Hello: 7, world: 8 } }
  const steps = { normalizer: null, pre_tokenizer: { type: 'Whitespace' }, post_processor: null, decoder: null }
  for (const file of ['tokenizer.json.gz', 'tokenizer_config.json']) rmSync(join(folder, file)) // which names tokens of another
  writeFileSync(join(folder, 'tokenizer.json'), JSON.stringify({ added_tokens: [], ...steps, model }))
}

async function openTokenized(
  gateway: Partial<GatewayOptions> = {},
): Promise<House & { readonly seen: number[][]; readonly lines: string[] }> {
  const seen: number[][] = []
  const lines: string[] = []
  const log = {
    debug() {},
    info: (fields: object, text: string) => void lines.push(`${text} ${JSON.stringify(fields)}`),
    warn: (fields: object, text: string) => void lines.push(`${text} ${JSON.stringify(fields)}`),
  }
  await service.setModel('m', { path: tinyllama })
  const tokenizers = {
    status: (model: string): ModelStatus => service.status(model),
    replace: (model: string, path: string | undefined, signal: AbortSignal): Promise<ModelStatus> =>
      service.replaceModel(model, { path: path ?? folder }, signal),
  }
  const real = createServiceTokenizer(service, { model: 'm' })
  const tokenizer: PromptTokenizer = {
    async tokenize(request) {
      const prompt = await real.tokenize(request)
      seen.push([...(prompt?.tokens ?? [])])
      return prompt
    },
  }
  const house = await open({
    engines: 1,
    router: await InProcessRouter.create({ blockSize: 16, config: { useKvEvents: false } }),
    model: { tokenizer, aliases: ['other/name'] },
    gateway: { tokenizers, log, ...gateway },
  })
  return { ...house, seen, lines }
}

const complete = (url: string): Promise<Response> =>
  post(url, '/v1/completions', JSON.stringify({ model: 'm', prompt: 'Hello world' }))
const replace = (url: string, body: object | string, model = 'm'): Promise<Response> =>
  post(url, `/models/${model}/tokenizer`, typeof body === 'string' ? body : JSON.stringify(body))

it('another one serves later requests, and is shown', async () => {
  const { url, seen, lines, gateway } = await openTokenized()
  expect(await json(await fetch(`${url}/models/m/tokenizer`))).toEqual({
    model: 'm',
    source: 'configured',
    from: tinyllama,
    encoder: 'own',
    asks: null,
    unaskable: null,
    load_only: null,
    trouble: null,
    reason: null,
    tried: [],
  })
  await (await complete(url)).text()
  writeWords()
  const answer = await replace(url, { path: folder })
  expect(answer.status).toBe(200)
  expect(await json(answer)).toMatchObject({ source: 'configured', from: folder, encoder: 'library' })
  await (await complete(url)).text()
  expect(seen).toEqual([
    [1, 15043, 3186],
    [7, 8],
  ])
  expect(lines).toContain(`a tokenizer was replaced {"model":"m","source":"configured","from":"${folder}"}`)
  expect(gateway.metrics.registry.text()).toContain(
    'warmroute_tokenizer_replacements_total{model="m",outcome="replaced"} 1\n',
  )
})

it('files are read again where they were, also under an alias', async () => {
  const { url, seen } = await openTokenized()
  writeWords()
  expect((await replace(url, '', encodeURIComponent('other/name'))).status).toBe(200)
  await (await complete(url)).text()
  expect(seen).toEqual([[7, 8]])
})

it('requests under way end with the one before', async () => {
  const { url } = await openTokenized()
  const long = 'Hello wide world, '.repeat(20_000) // long enough for a thread
  const running = service.tokenizeRequest('m', 'completions', { prompt: long })
  writeWords()
  expect((await replace(url, { path: folder })).status).toBe(200)
  const tokens = await running
  expect('ids' in tokens && tokens.ids[0]).toBe(1) // BOS of the first
  const next = await service.tokenizeRequest('m', 'completions', { prompt: 'Hello' })
  expect('ids' in next && [...next.ids]).toEqual([7])
})

it.each([
  { says: 'a path without a tokenizer', body: { path: 'test/fixtures/nowhere' }, code: 'WR_TOKENS_BAD_TOKENIZER' },
  { says: 'a path that is no text', body: { path: 3 }, code: 'WR_INVALID_BODY' },
  { says: 'an empty path', body: { path: '' }, code: 'WR_INVALID_BODY' },
  { says: 'a field that there is not', body: { folder: '/x' }, code: 'WR_INVALID_BODY' },
  { says: 'no JSON', body: '{', code: 'WR_INVALID_BODY' },
])('$says is refused, and the one before serves on', async ({ body, code }) => {
  const { url, seen } = await openTokenized()
  expect(await errorOf(await replace(url, body))).toMatchObject({ status: 400, code })
  await (await complete(url)).text()
  expect(seen).toEqual([[1, 15043, 3186]])
})

it('files that have become broken are refused when they are read again', async () => {
  const { url, seen, lines, gateway } = await openTokenized()
  expect((await replace(url, { path: folder })).status).toBe(200)
  for (const file of ['tokenizer.json.gz', 'tokenizer_config.json']) rmSync(join(folder, file)) // which names tokens of another
  writeFileSync(join(folder, 'tokenizer.json'), '{"model":')
  const error = await errorOf(await replace(url, {}))
  expect(error).toMatchObject({ status: 400, code: 'WR_TOKENS_BAD_TOKENIZER' })
  await (await complete(url)).text()
  expect(seen).toEqual([[1, 15043, 3186]])
  expect(lines.some((line) => line.startsWith('a tokenizer was not replaced'))).toBe(true)
  expect(gateway.metrics.registry.text()).toContain(
    'warmroute_tokenizer_replacements_total{model="m",outcome="refused"} 1\n',
  )
})

it('only an admin may, of a model that there is, where somebody keeps tokenizers', async () => {
  const keys = { apiKeyHashes: [hashKey('client')], adminKeyHashes: [hashKey('boss')] }
  const { url } = await openTokenized(keys)
  const as = (key: string, path: string): Promise<Response> =>
    fetch(url + path, { method: 'POST', headers: { authorization: `Bearer ${key}`, 'x-forwarded-for': '10.0.0.1' } })
  expect((await as('client', '/models/m/tokenizer')).status).toBe(403)
  expect((await as('boss', '/models/unknown/tokenizer')).status).toBe(404)
  expect((await as('boss', '/models/m/template')).status).toBe(404)
  expect((await as('boss', '/models/m/tokenizer')).status).toBe(200)
})

it('there is no such route where nobody keeps tokenizers', async () => {
  const { url } = await open({ engines: 1 })
  expect((await replace(url, {})).status).toBe(404)
})
