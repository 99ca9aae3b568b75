// The sources behind real sockets: engines that answer what real ones were recorded to answer, and files. Hubs are in hub.sockets.test.ts.
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import type { ServerResponse } from 'node:http'
import { join } from 'node:path'
import { gunzipSync } from 'node:zlib'
import { describe, expect, it, vi } from 'vitest'
import { computeBlockHashes, createBlockHasher, createHashScheme } from '../../core/hashing/index.js'
import { Tokens } from '../tokens.js'
import type { Handle } from './places.case.js'
import { placesOfEachTest, template, tokenizerJson } from './places.case.js'

const fixtures = new URL('../../../test/fixtures/', import.meta.url)

interface Exchange {
  readonly server: string
  readonly kind: string
  readonly request: { readonly path: string; readonly body: Record<string, unknown> | null }
  readonly status: number
  readonly response_text: string
}
const exchanges = gunzipSync(readFileSync(new URL('vllm/http.jsonl.gz', fixtures)))
  .toString('utf8')
  .trim()
  .split('\n')
  .map((line) => JSON.parse(line) as Exchange)
  .filter((it) => it.kind === 'http')

const { service, listen, newFolder, idsOf, stopServer } = placesOfEachTest()

describe('media', () => {
  const image = (url: string): object => ({
    messages: [{ role: 'user', content: [{ type: 'image_url', image_url: { url } }] }],
  })
  const ids = Array.from({ length: 64 }, (_, index) => (index >= 20 && index < 40 ? 9 : index))
  const folder = newFolder()
  for (const [name, bytes] of [
    ['tokenizer.json', tokenizerJson],
    ['chat_template.jinja', template],
  ] as const)
    writeFileSync(join(folder, name), bytes)

  /** An engine that renders, or not, and names the image by its address. */
  async function engineFor(model: string, { renders = true } = {}): Promise<string[]> {
    const asked: string[] = []
    const url = await listen((request, body, response) => {
      asked.push(request.url!)
      if (!renders) return void response.writeHead(404).end()
      const { messages } = JSON.parse(body) as { messages?: [{ content: string | [{ image_url: { url: string } }] }] }
      const content = messages?.[0].content
      if (typeof content !== 'object') return void response.writeHead(404).end() // a text: not the subject here
      const { url: identifier } = content[0].image_url
      const features = { mm_hashes: { image: [identifier] }, mm_placeholders: { image: [{ offset: 20, length: 20 }] } }
      response.writeHead(200).end(JSON.stringify({ token_ids: ids, features }))
    })
    await service.setModel(model, { path: folder, engine: { url, dialect: 'vllm' } })
    return asked
  }

  it('are placed and hashed as a rendering engine says, also where the text is encoded here', async () => {
    await engineFor('seen')
    const scheme = createHashScheme({ blockSize: 16 })
    const hashesOf = async (digit: string): Promise<number[]> => {
      const tokens = await service.tokenizeRequest('seen', 'chat', image(digit.repeat(64)) as never)
      if (!(tokens instanceof Tokens)) throw new Error(tokens.detail)
      expect(tokens).toMatchObject({ source: 'engine', exactness: 'proven' })
      return [...tokens.blockHashes(scheme, createBlockHasher()).localColumn()]
    }
    const mmObjects = [{ mmHash: 0xaaaa_aaaa_aaaa_aaaan, offsets: [] }]
    const touched = computeBlockHashes(ids, 16, { blockExtraInfo: [null, { mmObjects }, { mmObjects }, null] })
    const first = await hashesOf('a')
    expect(first).toEqual([...new Uint32Array(BigUint64Array.from(touched).buffer)])
    const other = await hashesOf('b')
    const isSame = [0, 1, 2, 3].map((block) => first[2 * block] === other[2 * block])
    expect(isSame).toEqual([true, false, false, true])
  })

  it('are passed on as they are when they are large', async () => {
    await engineFor('large')
    const body = { ...image('c'.repeat(64)), padding: 'x'.repeat(1 << 20) }
    const raw = new TextEncoder().encode(JSON.stringify(body))
    const tokens = await service.tokenizeRequest('large', 'chat', body as never, { raw })
    expect(tokens).toMatchObject({ source: 'engine', media: { mmObjects: [{ mmHash: 0xcccc_cccc_cccc_ccccn }] } })
  })

  it('are load-only where events would not name them by that identifier, and where nobody places them', async () => {
    await engineFor('named')
    const named = await service.tokenizeRequest('named', 'chat', image('my-own-uuid') as never)
    expect(named).toMatchObject({ loadOnly: 'media-image' })
    await stopServer()
    const asked = await engineFor('blind', { renders: false })
    asked.length = 0 // how it tokenizes was compared
    for (let turn = 0; turn < 2; turn++) {
      const result = await service.tokenizeRequest('blind', 'chat', image('x') as never)
      expect(result).toMatchObject({ loadOnly: 'media-image' })
    }
    expect(asked).toEqual(['/v1/chat/completions/render']) // once is enough to know
  })
})

it('finds a snapshot in the cache that other tools keep, or the folder itself', async () => {
  const cache = newFolder()
  const snapshot = join(cache, 'models--org--tiny', 'snapshots', 'abc123')
  mkdirSync(snapshot, { recursive: true })
  mkdirSync(join(cache, 'models--org--tiny', 'refs'))
  writeFileSync(join(cache, 'models--org--tiny', 'refs', 'main'), 'abc123')
  writeFileSync(join(snapshot, 'tokenizer.json'), tokenizerJson)
  const found = await service.setModel('cached', { model: 'org/tiny', hubCache: cache })
  expect(found).toMatchObject({ source: 'hub-cache', from: snapshot })
  expect(await service.setModel('by path', { model: snapshot })).toMatchObject({ source: 'folder' })
})

it('takes a tokenizer that our own paths do not know through the library', async () => {
  const folder = newFolder()
  const vocab = { '[UNK]': 0, hello: 1, wor: 2, '##ld': 3 }
  const model = {
    type: 'WordPiece',
    unk_token: '[UNK]',
    continuing_subword_prefix: '##',
    max_input_chars_per_word: 100,
    vocab,
  }
  const steps = {
    normalizer: { type: 'Lowercase' },
    pre_tokenizer: { type: 'Whitespace' },
    post_processor: null,
    decoder: null,
  }
  writeFileSync(join(folder, 'tokenizer.json'), JSON.stringify({ added_tokens: [], ...steps, model }))
  expect(await service.setModel('words', { path: folder })).toMatchObject({
    encoder: 'library',
    reason: 'model WordPiece',
  })
  expect(await idsOf('words', 'completions', { prompt: 'Hello world zzz' })).toEqual([1, 2, 3, 0])
  const long = 'hello world '.repeat(200)
  const first = await idsOf('words', 'completions', { prompt: long })
  expect(await idsOf('words', 'completions', { prompt: long })).toEqual(first)
  expect(service.counts.models['words']!.texts.hits).toBe(1)
})

it('refuses files that are no tokenizer', async () => {
  const folder = newFolder()
  for (const text of ['', 'null', '{', '{"model":{}}', '{"model":{"vocab":{}},"added_tokens":3}']) {
    writeFileSync(join(folder, 'tokenizer.json'), text)
    const status = await service.setModel('bad', { path: folder })
    expect(status.source).toBe('none')
    expect(status.tried).toHaveLength(1)
  }
})

it('leaves a model to its engine where nobody here can make its tokenizer', async () => {
  const folder = newFolder()
  const steps = { normalizer: { type: 'Odd' }, pre_tokenizer: null, post_processor: null, decoder: null }
  const model = { type: 'WordPiece', unk_token: '[UNK]', vocab: { '[UNK]': 0 } }
  writeFileSync(join(folder, 'tokenizer.json'), JSON.stringify({ added_tokens: [], ...steps, model }))
  const url = await listen((_, __, response) => void response.writeHead(200).end('{"tokens":[5,6],"count":2}'))
  const status = await service.setModel('odd steps', { path: folder, engine: { url, dialect: 'sglang' } })
  expect(status).toMatchObject({ source: 'engine', from: url })
  expect(status.tried).toEqual([expect.stringContaining('Odd')])
  expect(await idsOf('odd steps', 'completions', { prompt: 'x' })).toEqual([5, 6])
})

describe('an engine', () => {
  const messages = [
    { role: 'system', content: 'You are terse.' },
    { role: 'user', content: 'Hello there, who are you?' },
  ]
  const chat = { model: 'tiny', messages, max_tokens: 4, temperature: 0 }

  /** Answers as the recorded server did to the same path and prompt. */
  function replay(name: string): Handle {
    const key = (it: Record<string, unknown> | null): string =>
      JSON.stringify([it?.['prompt'], it?.['messages'], it?.['input']])
    return (request, body, response) => {
      const sent = key(body === '' ? null : (JSON.parse(body) as Record<string, unknown>))
      const found = exchanges.find(
        (it) => it.server === name && it.request.path === request.url && key(it.request.body) === sent,
      )
      response.writeHead(found?.status ?? 404).end(found?.response_text ?? '{"detail":"Not Found"}')
    }
  }

  it('renders with the code of inference where it was started to', async () => {
    const url = await listen(replay('B'))
    expect(await service.setModel('b', { engine: { url, dialect: 'vllm' } })).toMatchObject({
      source: 'engine',
      from: url,
    })
    expect((await idsOf('b', 'chat', chat)).slice(0, 5)).toEqual([1, 29966, 29989, 5205, 29989])
    const once = { model: 'tiny', prompt: 'Once upon a time', max_tokens: 4 }
    expect(await idsOf('b', 'completions', once)).toEqual([1, 9038, 2501, 263, 931])
    expect((await idsOf('b', 'responses', { model: 'tiny', input: 'Hello' })).slice(0, 3)).toEqual([1, 1, 29966])
    expect(await idsOf('b', 'completions', { prompt: [7, 8] })).toEqual([7, 8])
  })

  it.each([
    [{}, 'proven'],
    [{ truncate_prompt_tokens: 2 }, 'proven'],
    [{ truncate_prompt_tokens: -1 }, 'expected'], // cut at a limit that only the engine knows
  ])('is not asked for ids that a request brings, with %j', async (more, exactness) => {
    const url = await listen((_, __, response) => void response.writeHead(404).end())
    await service.setModel('ids', { engine: { url, dialect: 'vllm' } })
    const body = { prompt: [1, 2, 3], ...more }
    expect(await service.tokenizeRequest('ids', 'completions', body)).toMatchObject({ source: 'request', exactness })
  })

  it('is asked to tokenize where it does not render, and once for one request', async () => {
    const asked: string[] = []
    const answer = replay('A')
    const url = await listen((request, body, response) => {
      asked.push(request.url ?? '')
      answer(request, body, response)
    })
    await service.setModel('a', { engine: { url, dialect: 'vllm' } })
    const first = await idsOf('a', 'chat', chat)
    expect(first).toHaveLength(36)
    expect(await idsOf('a', 'chat', { ...chat, stream: true, temperature: 1 })).toEqual(first)
    expect(await idsOf('a', 'completions', { model: 'tiny', prompt: 'Hello world' })).toEqual([1, 15043, 3186])
    // The first question to its tokenizer is whether it has the marks of gpt-oss.
    expect(asked).toEqual(['/tokenizer_info', '/v1/chat/completions/render', '/tokenize', '/tokenize', '/tokenize'])
    expect(service.counts.models['a']!.texts).toMatchObject({ hits: 1 })
  })

  it('is asked again for a prompt that goes on, whose known blocks are then not hashed again', async () => {
    const prompts = new Map<string, number[]>()
    const url = await listen((_, body, response) => {
      const { prompt } = JSON.parse(body) as { prompt: string }
      response.writeHead(200).end(JSON.stringify({ tokens: prompts.get(prompt) }))
    })
    await service.setModel('grows', { engine: { url, dialect: 'sglang' } })
    const ids = Array.from({ length: 400 }, (_, index) => index * 7)
    const hasher = createBlockHasher()
    const extend = vi.spyOn(hasher, 'extend')
    for (const length of [200, 300, 400]) {
      prompts.set(`of ${length}`, ids.slice(0, length))
      const tokens = await service.tokenizeRequest('grows', 'completions', { prompt: `of ${length}` })
      if (!(tokens instanceof Tokens)) throw new Error(tokens.detail)
      const fresh = computeBlockHashes(ids.slice(0, length), 16)
      const local = tokens.blockHashes(createHashScheme({ blockSize: 16 }), hasher).localColumn()
      expect([...local]).toEqual([...new Uint32Array(BigUint64Array.from(fresh).buffer)])
    }
    expect(extend.mock.results.map(({ value }) => value as number)).toEqual([12, 18])
  })

  it('is asked apart for 1 and for 1.0, as the client wrote it', async () => {
    const asked: string[] = []
    const url = await listen((_, body, response) => {
      asked.push(body)
      response.writeHead(200).end('{"tokens":[1,2]}')
    })
    await service.setModel('floats', { engine: { url, dialect: 'sglang' } })
    for (const number of ['1', '1.0', '1.0']) {
      const text = `{"messages":[{"role":"user","content":"x"}],"tools":[{"minimum":${number}}]}`
      const raw = new TextEncoder().encode(text)
      await service.tokenizeRequest('floats', 'chat', JSON.parse(text) as never, { raw })
    }
    expect(asked.map((it) => /"minimum": ?([\d.]+)/.exec(it)![1])).toEqual(['1', '1.0'])
  })

  it('is not asked for a body that would hold the loop, nor for numbers that it would not see as written', async () => {
    let asked = 0
    const url = await listen((_, __, response) => {
      asked++
      response.writeHead(200).end('{"tokens":[1,2]}')
    })
    await service.setModel('long', { engine: { url, dialect: 'sglang' } })
    const ask = (content: string, number: string): Promise<unknown> => {
      const text = `{"messages":[{"role":"user","content":"${content}"}],"tools":[{"minimum":${number}}]}`
      return service.tokenizeRequest('long', 'chat', JSON.parse(text) as never, { raw: new TextEncoder().encode(text) })
    }
    expect(await ask('x'.repeat(1 << 20), '1')).toMatchObject({ loadOnly: 'too-long' })
    expect(await ask('x'.repeat(70_000), '1.0')).toMatchObject({ loadOnly: 'too-long' })
    expect(asked).toBe(0)
    expect(await ask('x'.repeat(70_000), '1')).toBeInstanceOf(Tokens)
  })

  it.each([
    {
      says: 'answers nonsense',
      reply: (it: ServerResponse) => it.writeHead(200).end('<html>'),
      loadOnly: 'source-failed',
    },
    { says: 'refuses the request', reply: (it: ServerResponse) => it.writeHead(400).end('{}'), loadOnly: 'malformed' },
    {
      says: 'has no such route',
      reply: (it: ServerResponse) => it.writeHead(404).end('{}'),
      loadOnly: 'source-failed',
    },
    { says: 'wants a key', reply: (it: ServerResponse) => it.writeHead(401).end('{}'), loadOnly: 'source-failed' },
    { says: 'is broken', reply: (it: ServerResponse) => it.writeHead(500).end('{}'), loadOnly: 'source-failed' },
    { says: 'hangs up', reply: (it: ServerResponse) => it.destroy(), loadOnly: 'source-failed' },
    { says: 'never answers', reply: () => undefined, loadOnly: 'source-failed' },
    {
      says: 'never ends its answer',
      reply: (it: ServerResponse) => void it.writeHead(200).write('{"tokens":[1,2'),
      loadOnly: 'source-failed',
    },
    {
      says: 'sends everybody to itself',
      reply: (it: ServerResponse) => it.writeHead(307, { location: '/v1/tokenize' }).end(),
      loadOnly: 'source-failed',
    },
    ...[
      '{"tokens":[1,2],"count":3}',
      '{"tokens":[1,2.5]}',
      '{"tokens":[-1]}',
      '{"tokens":["1"]}',
      '{"tokens":[]}',
      '[[]]',
    ].map((text) => ({
      says: `answers ${text}`,
      reply: (it: ServerResponse) => it.writeHead(200).end(text),
      loadOnly: 'source-failed',
    })),
  ])('that $says makes the request load-only', async ({ reply, loadOnly }) => {
    const url = await listen((_, __, response) => void reply(response))
    await service.setModel('odd', { engine: { url, dialect: 'sglang', deadlineMs: 80 } })
    expect(await service.tokenizeRequest('odd', 'completions', { prompt: 'x' })).toMatchObject({ loadOnly })
  })

  it('is remembered within its bytes, and what is forgotten is counted and asked for again', async () => {
    let asked = 0
    const url = await listen((_, __, response) => {
      asked++
      const ids = Array.from({ length: 200 }, (___, index) => index * asked)
      response.writeHead(200).end(JSON.stringify({ tokens: ids }))
    })
    await service.setModel('small', { engine: { url, dialect: 'sglang', cacheBytes: 60_000 } })
    for (let index = 0; index < 40; index++) {
      await idsOf('small', 'completions', { prompt: `prompt ${index}` })
      expect(service.counts.models['small']!.cacheBytes).toBeLessThanOrEqual(60_000)
    }
    const { hits, misses, evictions } = service.counts.models['small']!.texts
    expect({ hits, misses }).toEqual({ hits: 0, misses: 40 })
    expect(evictions).toBeGreaterThan(20)
    await idsOf('small', 'completions', { prompt: 'prompt 0' })
    expect(asked).toBe(41)
  })

  it('counts with a short answer what holds it, which is most of it', async () => {
    const url = await listen((_, __, response) => response.writeHead(200).end('{"tokens":[1,2,3,4,5,6,7,8]}'))
    const cacheBytes = 3 * 64_000
    await service.setModel('short', { engine: { url, dialect: 'sglang', cacheBytes } })
    for (let index = 0; index < 100; index++) await idsOf('short', 'completions', { prompt: `prompt ${index}` })
    const { misses, evictions } = service.counts.models['short']!.texts
    expect(misses - evictions).toBeGreaterThan(20)
    expect(misses - evictions).toBeLessThan(64_000 / 1550) // bytes, as measured of a hundred thousand that were hashed twice
  })

  it('that answers without end is not listened to any longer', async () => {
    const url = await listen((_, __, response) => {
      response.writeHead(200).end(`{"tokens":[1${',1'.repeat(4_500_000)}]}`)
    })
    await service.setModel('endless', { engine: { url, dialect: 'sglang', deadlineMs: 20_000 } })
    expect(await service.tokenizeRequest('endless', 'completions', { prompt: 'x' })).toMatchObject({
      loadOnly: 'source-failed',
      error: { details: { reason: 'the answer is longer than 8388608 bytes' } },
    })
  })

  it('of TensorRT-LLM is no source: what it has is for bare texts', async () => {
    const asked: string[] = []
    const url = await listen((request, _, response) => {
      asked.push(request.url ?? '')
      response.writeHead(404).end('{"detail":"Not Found"}')
    })
    expect(await service.setModel('trt', { engine: { url, dialect: 'trtllm' } })).toMatchObject({
      source: 'none',
      reason: expect.stringContaining('TensorRT-LLM tokenizes no chats') as never,
      trouble: expect.stringContaining('TensorRT-LLM tokenizes no chats') as never,
    })
    expect(await service.tokenizeRequest('trt', 'chat', chat)).toMatchObject({
      loadOnly: 'no-tokenizer',
      detail: expect.stringContaining('TensorRT-LLM') as never,
    })
    expect(asked).toEqual([])
  })

  it('that gives no tokens is in trouble until it gives some, but not for requests that it must refuse', async () => {
    let status = 404
    const url = await listen((_, __, response) => response.writeHead(status).end('{"tokens":[1,2]}'))
    expect(await service.setModel('t', { engine: { url, dialect: 'sglang' } })).toMatchObject({ trouble: undefined })
    let count = 0
    const ask = (): Promise<unknown> => service.tokenizeRequest('t', 'completions', { prompt: `prompt ${count++}` })
    for (const says of [undefined, undefined, 'the engine answered 404 to /v1/tokenize']) {
      expect(await ask()).toMatchObject({ loadOnly: 'source-failed' })
      expect(service.status('t').trouble).toBe(says)
    }
    status = 200
    expect(await ask()).toBeInstanceOf(Tokens)
    expect(service.status('t').trouble).toBeUndefined()
    status = 400
    for (let refused = 0; refused < 5; refused++) expect(await ask()).toMatchObject({ loadOnly: 'malformed' })
    expect(service.status('t').trouble).toBeUndefined()
    await stopServer()
    for (let failed = 0; failed < 3; failed++) expect(await ask()).toMatchObject({ loadOnly: 'source-failed' })
    expect(service.status('t').trouble).toMatch(/fetch failed: .*ECONNREFUSED/)
    const stop = AbortSignal.abort(new Error('over'))
    await expect(service.tokenizeRequest('t', 'completions', { prompt: 'y' }, { signal: stop })).rejects.toThrow('over')
  })

  it('is not waited for once the request is aborted', async () => {
    const stop = new AbortController()
    const url = await listen(() => stop.abort(new Error('the client left')))
    await service.setModel('gone', { engine: { url, dialect: 'sglang' } })
    const running = service.tokenizeRequest('gone', 'completions', { prompt: 'x' }, { signal: stop.signal })
    await expect(running).rejects.toThrow('the client left')
  })
})
