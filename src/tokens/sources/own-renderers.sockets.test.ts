// Models that an engine renders by code of its own (spec/engines.md 3.2): their template's text is no prompt of that engine. Issue 7.
import { cpSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import type { Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import { tinyllamaFolder } from '../real-tokenizers.case.js'
import { TokenService } from '../token-service.js'
import { ownRenderersOf } from './own-renderers.js'

const service = new TokenService({ threads: 1 })
const folder = mkdtempSync(join(tmpdir(), 'warmroute-own-renderers-'))
const chat = { messages: [{ role: 'user', content: 'Hello' }] }
let server: Server | undefined

beforeAll(() => {
  cpSync(tinyllamaFolder, folder, { recursive: true })
  writeFileSync(join(folder, 'config.json'), '{"model_type":"gpt_oss","architectures":["GptOssForCausalLM"]}')
})
afterEach(() => server?.close().closeAllConnections())
afterAll(async () => {
  await service.close()
  rmSync(folder, { recursive: true })
})

/** It renders to 7, 8, 9 where it renders at all, and tokenizes to something else. */
async function serve(renders: boolean): Promise<string> {
  server = createServer((request, response) => {
    const isRender = request.url!.endsWith('/render')
    if (isRender && !renders) response.writeHead(403).end('{}')
    else response.writeHead(200).end(isRender ? '{"token_ids":[7,8,9]}' : '{"count":2,"tokens":[1,2]}')
  })
  await new Promise<void>((resolve) => server!.listen(0, '127.0.0.1', resolve))
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`
}

describe('gpt-oss on vLLM', () => {
  it('is not rendered by its template, and says so', async () => {
    const status = await service.setModel('oss', { path: folder })
    expect(status).toMatchObject({ source: 'configured', reason: expect.stringContaining('by code of its own') })
    for (const route of ['chat', 'messages', 'responses'] as const)
      expect(await service.tokenizeRequest('oss', route, { ...chat, input: 'Hello' })).toMatchObject({
        loadOnly: 'own-renderer',
      })
    expect(await service.tokenizeRequest('oss', 'completions', { prompt: 'Hello' })).toMatchObject({
      source: 'tokenizer',
    })
    const carried = { ...chat, nvext: { token_data: [1, 2, 3] } }
    expect(await service.tokenizeRequest('oss', 'chat', carried)).toMatchObject({ source: 'request' })
    expect(service.counts.prompts['oss']!.loadOnly).toEqual({ 'own-renderer': 3 })
  })

  it('is asked of an engine that renders', async () => {
    const engine = { url: await serve(true), dialect: 'vllm' as const }
    await service.setModel('oss', { path: folder, engine })
    const tokens = await service.tokenizeRequest('oss', 'chat', chat)
    expect(tokens).toMatchObject({ source: 'engine', exactness: 'proven', ids: Uint32Array.of(7, 8, 9) })
  })

  it('is not asked of one that only tokenizes: it does so by the template', async () => {
    const engine = { url: await serve(false), dialect: 'vllm' as const }
    await service.setModel('oss', { path: folder, engine })
    for (let times = 0; times < 2; times++)
      expect(await service.tokenizeRequest('oss', 'chat', chat)).toMatchObject({ loadOnly: 'own-renderer' })
  })

  it('is rendered by its template on SGLang, but for responses', async () => {
    await service.setModel('oss', { path: folder, rules: { dialect: 'sglang' } })
    expect(await service.tokenizeRequest('oss', 'chat', chat)).toMatchObject({ source: 'tokenizer' })
    expect(await service.tokenizeRequest('oss', 'responses', { input: 'Hi' })).toMatchObject({
      loadOnly: 'own-renderer',
    })
  })

  it('has its own answer for each kind of engine', async () => {
    await service.setModel('oss', { path: folder })
    service.setOther('oss', 'sglang', { rules: {} })
    expect(await service.tokenizeRequest('oss', 'chat', chat, {}, 'sglang')).toMatchObject({ source: 'tokenizer' })
    expect(await service.tokenizeRequest('oss', 'chat', chat)).toMatchObject({ loadOnly: 'own-renderer' })
  })
})

describe('gpt-oss without files, of an engine', () => {
  const marks = ['<|start|>', '<|channel|>', '<|message|>', '<|end|>', '<|call|>', '<|return|>']
  const asked: string[] = []

  /** Its tokenizer has the marks as tokens; texts are bytes to it. */
  async function serveOss({ renders = false, tells = false, hasMarks = true } = {}): Promise<string> {
    asked.length = 0
    server = createServer((request, response) => {
      let body = ''
      request.on('data', (chunk: Buffer) => (body += chunk.toString('utf8')))
      request.on('end', () => {
        asked.push(request.url!)
        if (request.url!.endsWith('/render')) {
          if (renders) response.writeHead(200).end('{"token_ids":[7,8,9]}')
          else response.writeHead(403).end('{}')
        } else if (request.url === '/tokenizer_info') {
          const decoder = Object.fromEntries(marks.map((content, id) => [String(id), { content }]))
          const info = { added_tokens_decoder: decoder, chat_template: '<|start|>{{ messages[0].content }}<|end|>' }
          response.writeHead(tells ? 200 : 404).end(JSON.stringify(info))
        } else {
          const { prompt = 'by the template' } = JSON.parse(body) as { prompt?: string }
          const parts = hasMarks ? prompt.split(/(<\|[a-z]+\|>)/).filter((it) => it !== '') : [prompt]
          const ids = parts.flatMap((it) =>
            marks.includes(it) && hasMarks ? [marks.indexOf(it)] : [...Buffer.from(it)],
          )
          response.writeHead(200).end(JSON.stringify({ tokens: ids, count: ids.length }))
        }
      })
    })
    await new Promise<void>((resolve) => server!.listen(0, '127.0.0.1', resolve))
    return `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  }

  const bodies = [
    ['chat', chat],
    ['messages', { ...chat, max_tokens: 1 }],
    ['responses', { input: 'Hello' }],
  ] as const

  it.each([false, true])('that does not render has no tokens; it tells its template: %s', async (tells) => {
    const engine = { url: await serveOss({ tells }), dialect: 'vllm' as const }
    await service.setModel('bare', { engine })
    for (const [route, body] of [...bodies, ...bodies])
      expect(await service.tokenizeRequest('bare', route, body), route).toMatchObject({ loadOnly: 'own-renderer' })
    expect(asked.filter((it) => it === '/tokenize').length).toBeLessThanOrEqual(1)
    expect(await service.tokenizeRequest('bare', 'completions', { prompt: 'Hi' })).toMatchObject({ source: 'engine' })
  })

  it('that renders has those', async () => {
    await service.setModel('bare', { engine: { url: await serveOss({ renders: true }), dialect: 'vllm' } })
    for (const [route, body] of bodies)
      expect(await service.tokenizeRequest('bare', route, body)).toMatchObject({
        exactness: 'proven',
        ids: Uint32Array.of(7, 8, 9),
      })
  })

  it('that is an SGLang has none for responses', async () => {
    await service.setModel('bare', { engine: { url: await serveOss(), dialect: 'sglang' } })
    expect(await service.tokenizeRequest('bare', 'chat', chat)).toMatchObject({ exactness: 'expected' })
    expect(await service.tokenizeRequest('bare', 'responses', { input: 'Hi' })).toMatchObject({
      loadOnly: 'own-renderer',
    })
  })

  it('whose tokenizer has other marks is another model', async () => {
    await service.setModel('bare', { engine: { url: await serveOss({ hasMarks: false }), dialect: 'vllm' } })
    expect(await service.tokenizeRequest('bare', 'chat', chat)).toMatchObject({ exactness: 'expected' })
  })
})

it.each([
  { config: { architectures: ['DeepseekV32ForCausalLM'] }, engines: ['vllm', 'sglang'] },
  { config: { model_type: 'internvl_chat', architectures: ['InternVLChatModel'] }, engines: ['sglang'] },
  { config: { model_type: 'minicpmv4_6' }, engines: [] },
  { config: { model_type: 'minimax_m3_vl' }, engines: ['sglang'] },
  { config: { architectures: ['DeepseekV4ForCausalLM'] }, engines: ['vllm', 'sglang'] },
  { config: { architectures: ['KimiK3ForConditionalGeneration'] }, engines: ['vllm', 'sglang'] },
  { config: { model_type: 'deepseek_v41' }, engines: ['sglang'] },
  { config: { model_type: 'qwen3', architectures: ['Qwen3ForCausalLM'] }, engines: [] },
  { config: undefined, engines: [] },
  { config: { architectures: 'odd' }, engines: [] },
])('$config is rendered so by $engines', ({ config, engines }) => {
  expect(Object.keys(ownRenderersOf(config, []))).toEqual(engines)
})

it('knows GLM 5.3, which SGLang renders in Python, by its template', () => {
  const template = "[gMASK]<sop>{{ 'Reasoning Effort: ' }}<tool_call><arg_key><arg_value>"
  for (const name of ['GlmMoeDsaForCausalLM', 'Glm5NextForConditionalGeneration']) {
    const config = { architectures: [name] }
    expect(Object.keys(ownRenderersOf(config, [], template))).toEqual(['sglang'])
    expect(ownRenderersOf(config, [], `${template}{{ enable_thinking }}`)).toEqual({})
    expect(ownRenderersOf(config, [])).toEqual({})
  }
  expect(ownRenderersOf({ architectures: ['Glm4MoeForCausalLM'] }, [], template)).toEqual({})
})

it('knows a Mistral by its files', () => {
  const files = ['config.json', 'tekken.json', 'consolidated-00001-of-00002.safetensors']
  expect(Object.keys(ownRenderersOf({}, files))).toEqual(['vllm'])
  expect(ownRenderersOf({}, files.slice(0, 2))).toEqual({})
})
