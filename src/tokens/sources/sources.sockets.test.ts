// The sources behind real sockets: a hub and engines that answer what real ones were recorded to answer.
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import type { IncomingMessage, Server, ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { gunzipSync } from 'node:zlib'
import { afterAll, afterEach, describe, expect, it } from 'vitest'
import { TokenService } from '../token-service.js'
import { Tokens } from '../tokens.js'

const fixtures = new URL('../../../test/fixtures/', import.meta.url)
const tokenizerJson = gunzipSync(readFileSync(new URL('tinyllama/tokenizer.json.gz', fixtures)))
const tokenizerConfig = readFileSync(new URL('tinyllama/tokenizer_config.json', fixtures))
const template = readFileSync(new URL('tinyllama/chat_template.jinja', fixtures))

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

const service = new TokenService({ threads: 1 })
const folders: string[] = []
let server: Server | undefined
afterAll(async () => {
  await service.close()
  for (const folder of folders) rmSync(folder, { recursive: true, force: true })
})
afterEach(async () => {
  server?.closeAllConnections()
  await new Promise<void>((resolve) => (server ? server.close(() => resolve()) : resolve()))
  server = undefined
})

type Handle = (request: IncomingMessage, body: string, response: ServerResponse) => void

async function listen(handle: Handle): Promise<string> {
  server = createServer((request, response) => {
    let body = ''
    request.on('data', (chunk: Buffer) => (body += chunk.toString('utf8')))
    request.on('end', () => handle(request, body, response))
  })
  await new Promise<void>((resolve) => server!.listen(0, '127.0.0.1', resolve))
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`
}

function newFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), 'warmroute-tokens-'))
  folders.push(folder)
  return folder
}

async function idsOf(model: string, route: 'chat' | 'completions' | 'responses', body: object): Promise<number[]> {
  const result = await service.tokenizeRequest(model, route, body as never)
  if (!(result instanceof Tokens)) throw new Error(`${result.loadOnly}: ${result.detail}`)
  return [...result.ids]
}

describe('a hub', () => {
  const files: Readonly<Record<string, Buffer>> = {
    '/org/tiny/resolve/main/tokenizer.json': tokenizerJson,
    '/org/tiny/resolve/main/tokenizer_config.json': tokenizerConfig,
    '/org/tiny/resolve/main/chat_template.jinja': template,
  }

  it('is asked once; then its files are found in the cache', async () => {
    const asked: string[] = []
    const endpoint = await listen((request, _, response) => {
      asked.push(`${request.url} ${request.headers.authorization}`)
      const file = files[request.url ?? '']
      response.writeHead(file ? 200 : 404).end(file ?? 'no such file')
    })
    const hub = { endpoint, cacheFolder: newFolder(), token: 'secret' }
    expect(await service.setModel('org/tiny', { hub })).toMatchObject({ source: 'hub', encoder: 'own' })
    expect(await idsOf('org/tiny', 'completions', { prompt: 'Hello world' })).toEqual([1, 15043, 3186])
    expect(asked.every((it) => it.endsWith('Bearer secret'))).toBe(true)
    const before = asked.length
    expect(await service.setModel('org/tiny', { hub })).toMatchObject({ source: 'hub-cache' })
    expect(asked.length).toBe(before)
  })

  it('is not asked for a name that is no repository, nor when it is not allowed', async () => {
    let asked = 0
    const endpoint = await listen((_, __, response) => {
      asked++
      response.writeHead(200).end('{}')
    })
    const hub = { endpoint, cacheFolder: newFolder() }
    for (const model of ['../etc/passwd', 'a/b/c', 'a b', 'org/..', '']) {
      expect(await service.setModel(model, { hub })).toMatchObject({ source: 'none' })
    }
    expect(await service.setModel('org/tiny', {})).toMatchObject({ source: 'none' })
    expect(asked).toBe(0)
  })

  it('that lacks the tokenizer leaves the model without one, and says why', async () => {
    const endpoint = await listen((_, __, response) => response.writeHead(404).end())
    const status = await service.setModel('org/none', { hub: { endpoint, cacheFolder: newFolder() } })
    expect(status.source).toBe('none')
    expect(status.tried.join()).toContain('404')
  })

  it('that never answers ends at the deadline', async () => {
    const endpoint = await listen(() => undefined)
    const hub = { endpoint, cacheFolder: newFolder(), deadlineMs: 50 }
    expect((await service.setModel('org/slow', { hub })).tried.join()).toContain('no answer within 50 ms')
  })

  it('that breaks off leaves nothing that could be taken for a whole file', async () => {
    const endpoint = await listen((request, _, response) => {
      if (!request.url?.endsWith('/tokenizer.json')) return void response.writeHead(404).end()
      response.writeHead(200, { 'content-length': tokenizerJson.length })
      response.write(tokenizerJson.subarray(0, 1000), () => response.destroy())
    })
    const hub = { endpoint, cacheFolder: newFolder() }
    expect(await service.setModel('org/broken', { hub })).toMatchObject({ source: 'none' })
    expect(await service.setModel('org/broken', { hubCache: hub.cacheFolder })).toMatchObject({ source: 'none' })
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
      const sent = key(JSON.parse(body) as Record<string, unknown>)
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
    expect(asked).toEqual(['/v1/chat/completions/render', '/tokenize', '/tokenize'])
    expect(await service.tokenizeRequest('a', 'responses', { input: 'Hello' })).toMatchObject({
      loadOnly: 'no-tokenizer',
    })
    expect(service.counts.models['a']!.texts).toMatchObject({ hits: 1 })
  })

  it.each([
    {
      says: 'answers nonsense',
      reply: (it: ServerResponse) => it.writeHead(200).end('<html>'),
      loadOnly: 'source-failed',
    },
    { says: 'refuses the request', reply: (it: ServerResponse) => it.writeHead(400).end('{}'), loadOnly: 'malformed' },
    { says: 'is broken', reply: (it: ServerResponse) => it.writeHead(500).end('{}'), loadOnly: 'source-failed' },
    { says: 'hangs up', reply: (it: ServerResponse) => it.destroy(), loadOnly: 'source-failed' },
    { says: 'never answers', reply: () => undefined, loadOnly: 'source-failed' },
  ])('that $says makes the request load-only', async ({ reply, loadOnly }) => {
    const url = await listen((_, __, response) => void reply(response))
    await service.setModel('odd', { engine: { url, dialect: 'sglang', deadlineMs: 80 } })
    expect(await service.tokenizeRequest('odd', 'completions', { prompt: 'x' })).toMatchObject({ loadOnly })
  })

  it('is not waited for once the request is aborted', async () => {
    const stop = new AbortController()
    const url = await listen(() => stop.abort(new Error('the client left')))
    await service.setModel('gone', { engine: { url, dialect: 'sglang' } })
    const running = service.tokenizeRequest('gone', 'completions', { prompt: 'x' }, { signal: stop.signal })
    await expect(running).rejects.toThrow('the client left')
  })
})
