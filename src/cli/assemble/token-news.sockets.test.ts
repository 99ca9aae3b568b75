// Goal: a model whose prompts are routed without their tokens is said to be so once, with the reason, and again when that is over.
// Method: `Assembly` before engines, with a log that is read; requests between, which must add no line.
import { cpSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import type { Server } from 'node:http'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, afterEach, expect, it, vi } from 'vitest'
import { expectClosed } from '../../../test/closed-router.js'
import { defaultRouterConfig } from '../../core/protocol/index.js'
import { startSimEngine } from '../../sim/index.js'
import { Assembly } from './assembly.js'
import type { TokenPlaces } from './token-places.js'

const good = 'test/fixtures/tinyllama'
const failing = mkdtempSync(join(tmpdir(), 'warmroute-failing-'))
cpSync(good, failing, { recursive: true })
writeFileSync(join(failing, 'chat_template.jinja'), "{{ raise_exception('no: ' + messages[0].content) }}")
afterAll(() => rmSync(failing, { recursive: true }))

const open: { close(): Promise<void> }[] = []
const routers: { readonly assembly: Assembly }[] = []
afterEach(async () => {
  for (const it of open.splice(0).reverse()) await it.close()
  await expectClosed(...routers.splice(0))
})

interface Told {
  readonly url: string
  readonly lines: Record<string, unknown>[]
  /** One chat: why it had no tokens. */
  readonly ask: (content?: string) => Promise<string | null>
}

async function tellingOf(engineUrl: string, model: string, tokenPlaces: TokenPlaces = {}): Promise<Told> {
  const lines: Record<string, unknown>[] = []
  const note = (level: string) => (fields: Record<string, unknown>, sentence: string) => {
    if (sentence.startsWith('prompts of a model')) lines.push({ level, ...fields })
  }
  const log = { debug: note('debug'), info: note('info'), warn: note('warn') }
  const gateway = { listen: { port: 0 } }
  const times = { watchMs: 20 }
  const assembly = new Assembly({
    workers: [{ url: engineUrl }],
    config: defaultRouterConfig,
    gateway,
    log,
    tokenPlaces,
    times,
  })
  open.push(assembly)
  routers.push({ assembly })
  const { url } = await assembly.listen()
  await assembly.looked()
  const headers = { 'content-type': 'application/json' }
  return {
    url,
    lines,
    async ask(content = 'a secret') {
      const body = JSON.stringify({ model, messages: [{ role: 'user', content }], max_tokens: 1 })
      const answer = await fetch(`${url}/v1/chat/completions`, { method: 'POST', headers, body })
      expect([answer.status, await answer.text()]).toEqual([200, expect.any(String)])
      return answer.headers.get('x-warmroute-load-only')
    },
  }
}

it('a kind of engine that nobody knows', async () => {
  const { ask, url, lines } = await tellingOf(await plainEngine(), 'plain', { path: good })
  const said = { level: 'warn', model: 'plain', source: 'none', reason: 'no-tokenizer' }
  const why = 'how engines of its kind build prompts is not known'
  expect(lines).toEqual([{ ...said, why }])
  for (let at = 0; at < 5; at++) expect(await ask()).toBe('no-tokenizer')
  expect(await (await fetch(`${url}/models/plain/tokenizer`)).json()).toMatchObject({
    source: 'none',
    load_only: 'no-tokenizer',
    reason: why,
  })
  const metrics = await (await fetch(`${url}/metrics`)).text()
  expect(metrics).toContain('warmroute_load_only_prompts_total{model="plain",reason="no-tokenizer"} 5\n')
  expect(metrics).toContain('warmroute_token_source{encoder="none",model="plain",source="none"} 1\n')
  expect(lines).toHaveLength(1)
})

it('a template that fails, until another takes its place', async () => {
  const engine = await startSimEngine({ engine: 'vllm', speedup: 100, blockTokens: 16 })
  open.push(engine)
  const { ask, url, lines } = await tellingOf(engine.url, 'sim', { path: failing })
  const known = { level: 'info', model: 'sim', source: 'configured' }
  const unknown = { ...known, level: 'warn', from: failing, reason: 'chat: template-failed' }
  expect(lines).toMatchObject([{ ...known, from: failing }])
  for (let at = 0; at < 5; at++) expect(await ask()).toBe('template-failed')
  await vi.waitFor(() => expect(lines).toMatchObject([{ ...known, from: failing }, unknown]), 10_000)
  const body = JSON.stringify({ path: good })
  expect((await fetch(`${url}/models/sim/tokenizer`, { method: 'POST', body })).status).toBe(200)
  expect(await ask()).toBeNull()
  await vi.waitFor(
    () => expect(lines).toMatchObject([{ ...known, from: failing }, unknown, { ...known, from: good }]),
    10_000,
  )
  expect(JSON.stringify(lines)).not.toContain('secret')
})

/** It answers chats, and says no more of itself than its model. */
async function plainEngine(): Promise<string> {
  const server: Server = createServer((request, response) => {
    request.resume()
    const isChat = request.url === '/v1/chat/completions'
    if (isChat) return void response.writeHead(200, { 'content-type': 'application/json' }).end('{"choices":[]}')
    if (request.url === '/health') return void response.writeHead(200).end()
    if (request.url !== '/v1/models') return void response.writeHead(404).end()
    response.writeHead(200).end(JSON.stringify({ object: 'list', data: [{ id: 'plain', owned_by: 'somebody' }] }))
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  open.push({ close: () => new Promise((resolve) => (server.closeAllConnections(), server.close(() => resolve()))) })
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`
}
