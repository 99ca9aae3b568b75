// An engine that tells its chat template and added tokens, behind a real socket: what it is asked, and what is done with the answers.
import { readFileSync } from 'node:fs'
import { createServer } from 'node:http'
import type { Server, ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { gunzipSync } from 'node:zlib'
import { afterAll, afterEach, expect, it, vi } from 'vitest'
import { prose } from '../../../bench/tokens/texts.js'
import { createBlockHasher, createHashScheme } from '../../core/hashing/index.js'
import type { Body, Route } from '../chat/request.js'
import { loadModel } from '../model/loaded-model.js'
import { sliceIds } from '../next-turn.js'
import { tinyllamaFolder } from '../real-tokenizers.case.js'
import { RememberedTexts } from '../remember/remembered-texts.js'
import { TokenService } from '../token-service.js'
import { Tokens } from '../tokens.js'
import type { EngineEndpoint } from './engine-tokens.js'
import { EngineTokens } from './engine-tokens.js'
import type { ToldEngine } from './learnt-engine.case.js'
import { toldEngine } from './learnt-engine.case.js'

const recorded = gunzipSync(readFileSync(new URL('../../../test/fixtures/vllm/http.jsonl.gz', import.meta.url)))
  .toString('utf8')
  .split('\n')
  .find((line) => line.includes('"b-tokenizer_info"'))!
const { response_text: info } = JSON.parse(recorded) as { response_text: string }
const engine = toldEngine(loadModel(tinyllamaFolder, 'socket'))

const service = new TokenService({ threads: 1 })
let server: Server | undefined
afterAll(() => service.close())
afterEach(async () => {
  server?.closeAllConnections()
  await new Promise<void>((resolve) => (server ? server.close(() => resolve()) : resolve()))
  server = undefined
})

interface Asked {
  readonly path: string
  readonly body: Record<string, unknown>
}

/** As the recorded server would answer, told or not. */
async function serve(
  options: { readonly tells?: boolean; readonly renders?: boolean; readonly engine?: () => ToldEngine } = {},
): Promise<{ readonly url: string; readonly asked: Asked[] }> {
  const { tells = true, renders = true, engine: current = () => engine } = options
  const asked: Asked[] = []
  const answer = (path: string, body: Asked['body'], response: ServerResponse): void => {
    const say = (value: unknown): void => void response.writeHead(200).end(JSON.stringify(value))
    if (path === '/tokenizer_info' && tells) return void response.writeHead(200).end(info)
    if (path === '/tokenize' && typeof body['prompt'] === 'string') {
      return say({ tokens: [...current().encode(body['prompt'], body['add_special_tokens'] !== false)] })
    }
    if (path === '/tokenize') return say({ tokens: [...current().render('chat', body as Body)] })
    const route = /^\/v1\/(chat)?.*\/render$/.exec(path)
    if (!route || !renders) return void response.writeHead(404).end('{"detail":"Not Found"}')
    say({ token_ids: [...current().render(route[1] ? 'chat' : 'completions', body as Body)], features: null })
  }
  server = createServer((request, response) => {
    let text = ''
    request.on('data', (chunk: Buffer) => (text += chunk.toString('utf8')))
    request.on('end', () => {
      const body = text === '' ? {} : (JSON.parse(text) as Asked['body'])
      asked.push({ path: request.url!, body })
      answer(request.url!, body, response)
    })
  })
  await new Promise<void>((resolve) => server!.listen(0, '127.0.0.1', resolve))
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, asked }
}

/** What it is asked for does not hang on the machine's speed. */
function patientEngine(url: string): EngineEndpoint {
  return { url, dialect: 'vllm', renderMsMax: 60_000 }
}

/** A conversation after so many turns. */
function chat(turns: number): Body {
  const messages = [{ role: 'system', content: prose(600, 5) }]
  for (let turn = 0; turn < turns; turn++) {
    messages.push({ role: turn % 2 ? 'assistant' : 'user', content: `turn ${turn}: ${prose(40, turn)}` })
  }
  return { model: 'tiny', messages } as unknown as Body
}

async function tokensOf(model: string, body: Body, route: Route = 'chat'): Promise<Tokens> {
  const tokens = await service.tokenizeRequest(model, route, body)
  if (!(tokens instanceof Tokens)) throw new Error(tokens.detail)
  return tokens
}

it.each([
  { says: 'renders', renders: true, whole: '/v1/chat/completions/render' },
  { says: 'only tokenizes', renders: false, whole: '/tokenize' },
])('an engine that tells what its texts are made of, and $says, is asked for new ends', async ({ renders, whole }) => {
  const { url, asked } = await serve({ renders })
  const status = await service.setModel('told', { engine: { ...patientEngine(url), wallMs: () => 0 } })
  expect(status).toMatchObject({ source: 'engine', asks: 'ends', reason: undefined })
  for (let turn = 1; turn <= 20; turn++) {
    const { ids, source } = await tokensOf('told', chat(turn))
    expect(source).toBe('engine')
    expect([...ids]).toEqual([...engine.render('chat', chat(turn))])
  }
  expect(service.counts.models['told']!.ends).toMatchObject({ whole: 1, continued: 19, checked: 4, refuted: 0 })
  const last = asked.slice(-15) // the first ones are checked: their whole is asked for, too
  expect(last.every(({ path, body }) => path === '/tokenize' && String(body['prompt']).startsWith('</s>'))).toBe(true)
  expect(Math.max(...last.map(({ body }) => String(body['prompt']).length))).toBeLessThan(120)
  expect(asked.filter(({ path, body }) => path === whole && body['messages'])).toHaveLength(5)
  // The same again is not asked at all.
  const before = asked.length
  await tokensOf('told', chat(20))
  expect(asked).toHaveLength(before)
})

it('asks for a chat again after each quarter of an hour, since the engine may show the date of wherever it is', async () => {
  const { url, asked } = await serve({ tells: false })
  let wallMs = Date.UTC(2026, 10, 5, 18, 14, 59)
  await service.setModel('dated', { engine: { ...patientEngine(url), wallMs: () => wallMs } })
  const askedFor = async (body: Body, route?: Route): Promise<number> => {
    const before = asked.length
    await tokensOf('dated', body, route)
    return asked.length - before
  }
  const text = { prompt: 'a text shows no date' }
  expect([await askedFor(chat(1)), await askedFor(text, 'completions')]).toEqual([1, 1])
  expect([await askedFor(chat(1)), await askedFor(text, 'completions')]).toEqual([0, 0])
  wallMs += 1000 // midnight in Nepal
  expect([await askedFor(chat(1)), await askedFor(text, 'completions')]).toEqual([1, 0])
})

it('blocks of what is known are not hashed again', async () => {
  const { url } = await serve()
  await service.setModel('hashed', { engine: { ...patientEngine(url) } })
  const scheme = createHashScheme({ blockSize: 16 })
  const hasher = createBlockHasher()
  const extend = vi.spyOn(hasher, 'extend')
  for (const turns of [2, 4, 6]) {
    const tokens = await tokensOf('hashed', chat(turns))
    const fresh = new Tokens({ ids: tokens.ids, source: 'engine', exactness: 'proven' })
    expect([...tokens.blockHashes(scheme, hasher).localColumn()]).toEqual([
      ...fresh.blockHashes(scheme, createBlockHasher()).localColumn(),
    ])
  }
  expect(extend).toHaveBeenCalledTimes(2)
})

it('the memory of answered ids is counted', async () => {
  const { url } = await serve({ tells: false })
  await service.setModel('counted', { engine: { ...patientEngine(url), cacheBytes: 3 * 40_000 } })
  const ids = (): unknown => ({ ...service.counts.models['counted']!.ids })
  await tokensOf('counted', chat(1))
  expect(ids()).toEqual({ hits: 0, misses: 1, evictions: 0 })
  await tokensOf('counted', chat(2)) // begins as the one before
  expect(ids()).toEqual({ hits: 1, misses: 1, evictions: 0 })
  for (let seed = 1; seed <= 6; seed++) await tokensOf('counted', { prompt: prose(6000, seed) }, 'completions')
  expect(ids()).toMatchObject({ hits: 1, misses: 7, evictions: expect.any(Number) as never })
  expect(service.counts.models['counted']!.ids!.evictions).toBeGreaterThan(2)
  expect(service.counts.models['counted']!.cacheBytes).toBeLessThanOrEqual(3 * 40_000)
})

it('a prompt with special tokens around it is continued, too', async () => {
  const { url, asked } = await serve()
  await service.setModel('wrapped', { engine: { ...patientEngine(url) } })
  const text = (count: number): string => `${prose(300, 1)}</s>${'more words</s>'.repeat(count)}`
  for (let turn = 1; turn < 8; turn++) {
    const { ids } = await tokensOf('wrapped', { prompt: text(turn) }, 'completions')
    expect([...ids]).toEqual([...engine.encode(text(turn), true)])
  }
  expect(asked.at(-1)!.body['prompt']).toBe('</s>more words</s>')
})

it('an engine that does not tell is asked for the whole, and the status says so', async () => {
  const { url, asked } = await serve({ tells: false })
  expect(await service.setModel('silent', { engine: { ...patientEngine(url) } })).toMatchObject({
    asks: 'whole',
    reason: 'it was not started with --enable-tokenizer-info-endpoint',
  })
  for (const turns of [1, 2]) await tokensOf('silent', chat(turns))
  expect(asked.map(({ path }) => path)).toEqual([
    '/tokenizer_info',
    '/v1/chat/completions/render',
    '/v1/chat/completions/render',
  ])
  expect(await service.setModel('other', { engine: { url, dialect: 'sglang' } })).toMatchObject({
    asks: 'whole',
    reason: 'only vLLM tells its chat template and added tokens',
  })
})

it('one difference ends it, and what was pieced together is forgotten', async () => {
  let current = engine
  const { url, asked } = await serve({ engine: () => current })
  await service.setModel('changes', { engine: { ...patientEngine(url) } })
  for (const turns of [1, 2]) await tokensOf('changes', chat(turns))
  // As after a restart with other arguments: the engine now renders a line more.
  current = { ...engine, render: (route, body) => Uint32Array.of(7, ...engine.render(route, body)) }
  const tokens = await tokensOf('changes', chat(3))
  expect([...tokens.ids]).toEqual([7, ...engine.render('chat', chat(3))])
  expect(service.status('changes')).toMatchObject({
    asks: 'whole',
    reason: expect.stringContaining('differed') as never,
  })
  expect(service.counts.models['changes']!.ends).toMatchObject({ refuted: 1, continued: 1 })
  const before = asked.length
  expect((await tokensOf('changes', chat(2))).ids[0]).toBe(7) // asked for again
  expect(asked.slice(before).map(({ path }) => path)).toEqual(['/v1/chat/completions/render'])
})

it('an answer that others refute while it is looked for in slices is asked for again, as a whole', async () => {
  let current = engine
  const { url, asked } = await serve({ engine: () => current })
  await service.setModel('sliced', { engine: { ...patientEngine(url) } })
  const prompt = (count: number): string => `${prose(300, 1)}</s>${'more words</s>'.repeat(count)}`
  await tokensOf('sliced', { prompt: prompt(1) }, 'completions')
  for (let turn = 1; turn <= 6; turn++) await tokensOf('sliced', chat(turn)) // now chats are trusted, and few checked
  current = { ...engine, render: (route, body) => Uint32Array.from([7, ...engine.render(route, body)]) }
  const long = {
    messages: [...(chat(6)['messages'] as never[]), { role: 'user', content: 'x '.repeat(sliceIds) }],
  } as unknown as Body
  let pieced: Uint32Array | undefined
  const slices = vi.spyOn(RememberedTexts.prototype, 'findInSlices')
  slices.mockImplementationOnce(async function (this: RememberedTexts, bytes, isWrapped) {
    pieced = new Uint32Array(bytes.slice().buffer)
    await tokensOf('sliced', { prompt: prompt(2) }, 'completions') // the first of its kind to be continued: it is checked
    return this.find(bytes, isWrapped)
  })
  try {
    const whole = Buffer.from(current.render('chat', long).buffer)
    const { ids } = await tokensOf('sliced', long)
    expect(pieced!.length).toBeGreaterThan(sliceIds)
    expect(pieced![0]).not.toBe(7) // it was made of pieces that are no longer true
    expect(service.counts.models['sliced']!.ends).toMatchObject({ refuted: 1 })
    expect(Buffer.from(ids.slice().buffer).equals(whole)).toBe(true)
    const before = asked.length
    expect((await tokensOf('sliced', long)).ids[0]).toBe(7) // and this is what is remembered
    expect(asked).toHaveLength(before)
  } finally {
    slices.mockRestore()
  }
})

it('an engine that never says what it is made of holds nobody up for long', async () => {
  server = createServer(() => undefined)
  await new Promise<void>((resolve) => server!.listen(0, '127.0.0.1', resolve))
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  const status = await service.setModel('mute', { engine: { url, dialect: 'vllm', deadlineMs: 60 } })
  expect(status).toMatchObject({ asks: 'whole', reason: expect.stringContaining('could not be learnt') as never })
  const stop = AbortSignal.abort(new Error('over'))
  await expect(service.setModel('mute', { engine: { ...patientEngine(url) } }, stop)).rejects.toThrow('over')
})

it('an engine that failed to say what it is made of is asked again, less and less often, and then for new ends', async () => {
  const patient = new TokenService({ threads: 1, learnAgain: { firstMs: 20, waitMaxMs: 80, triesMax: 50 } })
  const { url, asked } = await serve()
  const at: number[] = []
  const handle = server!.listeners('request')[0] as (...args: unknown[]) => void
  server!.removeAllListeners('request')
  server!.on('request', (request, response: ServerResponse) => {
    if (request.url !== '/tokenizer_info' || at.push(performance.now()) > 5) return handle(request, response)
    if (at.length === 1) request.destroy()
    else response.writeHead(503).end()
  })
  try {
    expect(await patient.setModel('late', { engine: { ...patientEngine(url) } })).toMatchObject({
      asks: 'whole',
      reason: expect.stringContaining('could not be learnt') as never,
    })
    expect(await patient.tokenizeRequest('late', 'chat', chat(1))).toBeInstanceOf(Tokens)
    await vi.waitFor(() => expect(patient.status('late')).toMatchObject({ asks: 'ends', reason: undefined }), 10_000)
    const waits = at.slice(1).map((it, index) => it - at[index]!)
    expect(at).toHaveLength(6)
    for (const [index, least] of [18, 38, 78, 78, 78].entries()) expect(waits[index]).toBeGreaterThan(least)
    for (const turns of [2, 3]) {
      const tokens = await patient.tokenizeRequest('late', 'chat', chat(turns))
      expect([...(tokens as Tokens).ids]).toEqual([...engine.render('chat', chat(turns))])
    }
    expect(patient.counts.models['late']!.ends).toMatchObject({ continued: 1, refuted: 0 })
    expect(asked.length).toBeGreaterThan(3)
  } finally {
    await patient.close()
  }
})

interface Ending {
  readonly says: string
  readonly triesMax: number
  readonly asks?: number
  readonly end: (it: TokenService) => Promise<unknown>
}

it.each<Ending>([
  { says: 'its tries are used up', triesMax: 2, asks: 3, end: () => Promise.resolve() },
  { says: 'the model is removed', triesMax: 1000, end: async (it) => it.removeModel('down') },
  {
    says: 'another source replaces it',
    triesMax: 1000,
    end: (it) => it.setModel('down', { path: tinyllamaFolder }),
  },
  { says: 'the service is closed', triesMax: 1000, end: (it) => it.close() },
])('an engine is not asked any more once $says', async ({ triesMax, asks, end }) => {
  const patient = new TokenService({ threads: 1, learnAgain: { firstMs: 10, waitMaxMs: 10, triesMax } })
  let count = 0
  server = createServer((_, response) => {
    count++
    response.writeHead(500).end()
  })
  await new Promise<void>((resolve) => server!.listen(0, '127.0.0.1', resolve))
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  try {
    await patient.setModel('down', { engine: { ...patientEngine(url) } })
    await vi.waitFor(() => expect(count).toBeGreaterThanOrEqual(3), 10_000)
    await end(patient)
    const before = count
    await new Promise((resolve) => setTimeout(resolve, 150))
    expect(count).toBeLessThanOrEqual(before + 1) // one may have been on its way
    if (asks !== undefined) expect(count).toBe(asks)
  } finally {
    await patient.close()
  }
})

it('a search for a source that began earlier does not undo a later one', async () => {
  let release = (): void => undefined
  server = createServer((_, response) => {
    release = () => void response.writeHead(404).end()
  })
  await new Promise<void>((resolve) => server!.listen(0, '127.0.0.1', resolve))
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  const asked = new Promise<void>((resolve) => server!.once('request', () => resolve()))
  const slow = service.setModel('raced', { engine: { url, dialect: 'vllm', deadlineMs: 60_000 } }) // longer than loading takes
  await asked
  expect(await service.replaceModel('raced', { path: tinyllamaFolder })).toMatchObject({ source: 'configured' })
  release()
  expect(await slow).toMatchObject({ source: 'configured' })
  // And what ranks behind it is no replacement, unless it is all that was ever there.
  const behind = { engine: { url: 'http://127.0.0.1:9', dialect: 'vllm' as const } }
  await expect(service.replaceModel('raced', behind)).rejects.toMatchObject({ code: 'WR_TOKENS_BAD_TOKENIZER' })
  expect(service.status('raced')).toMatchObject({ source: 'configured' })
  expect(await service.replaceModel('new', behind)).toMatchObject({ source: 'engine', asks: 'whole' })
})

it('a long answer is read in a thread, and the loop goes on meanwhile', async () => {
  const ids = Array.from({ length: 400_000 }, (_, index) => 100_000 + (index % 50_000))
  const long = JSON.stringify({ count: ids.length, tokens: ids })
  server = createServer((request, response) => {
    request.resume().on('end', () => response.writeHead(200).end(long))
  })
  await new Promise<void>((resolve) => server!.listen(0, '127.0.0.1', resolve))
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  await service.setModel('long', { engine: { url, dialect: 'sglang' } })
  const { done } = service.counts.pool
  const tokens = await tokensOf('long', { prompt: 'x' }, 'completions')
  const { ids: got } = tokens
  expect([got.length, got[399_999]]).toEqual([400_000, ids[399_999]])
  expect(service.counts.pool.done).toBe(done + 1)
  expect(tokens.isLong).toBe(true)
  const scheme = createHashScheme({ blockSize: 16 })
  await tokens.hashAhead(scheme, createBlockHasher())
  // What begins as it does is found, though both were looked for in slices.
  const again = await tokensOf('long', { prompt: 'y' }, 'completions')
  const hasher = createBlockHasher()
  const hash = vi.spyOn(hasher, 'hash')
  expect(again.blockHashes(scheme, hasher).count).toBe(25_000)
  expect(hash).not.toHaveBeenCalled()
})

it.each([
  { says: 'a prompt that is cut short', body: { prompt: 'a b c', truncate_prompt_tokens: 2 } },
  { says: 'a text with a suffix', body: { prompt: 'a', suffix: 'b' } },
])('does not take what a tokenize endpoint says for $says', async ({ body }) => {
  const { url, asked } = await serve({ tells: false, renders: false })
  await service.setModel('unasked', { engine: { url, dialect: 'vllm' } })
  expect(await service.tokenizeRequest('unasked', 'completions', body)).toMatchObject({ loadOnly: 'engine-settings' })
  expect(asked.filter(({ path }) => path === '/tokenize')).toEqual([])
})

it('asks SGLang for a text in its special tokens, as it encodes every completion', async () => {
  const { url, asked } = await serve({ tells: false, renders: false })
  const source = new EngineTokens({ url, dialect: 'sglang' })
  const body = { prompt: 'a', add_special_tokens: false, truncate_prompt_tokens: 1 }
  await source.tokenize('completions', body, {}).catch(() => undefined) // this server knows only vLLM's path
  expect(asked.at(-1)).toMatchObject({ path: '/v1/tokenize', body: { prompt: 'a', add_special_tokens: true } })
})

it('a text that an SGLang puts into a template of its own is not asked for: it would tokenize the bare one', async () => {
  const { url, asked } = await serve()
  const otherTemplates = { texts: 'it was started with one' }
  const source = new EngineTokens({ url, dialect: 'sglang' }, { dialect: 'sglang', otherTemplates })
  for (const prompt of ['hi', [1, 2]])
    await expect(source.tokenize('completions', { prompt }, {})).rejects.toMatchObject({ reason: 'engine-settings' })
  expect(asked).toEqual([])
  const { ids } = await source.tokenize('completions', { prompt: [1, 2], suffix: '' }, {})
  expect([...ids]).toEqual([1, 2])
})
