/** Engines behind a proxy that wants their key for every path: everything that asks them sends it. */
import { createServer, request as ask } from 'node:http'
import type { AddressInfo } from 'node:net'
import { expect, it, vi } from 'vitest'
import type { SimEngineOptions } from '../sim/index.js'
import { check } from './check.js'
import { client, isExact, serveOfEachTest } from './serve-house.case.js'

const { open, engine, start } = serveOfEachTest()

interface Guarded {
  readonly url: string
  /** Paths that were asked for, with the key and without it. */
  readonly asked: Set<string>
  readonly refused: Set<string>
}

/** A double that refuses with `status` whoever has no key, and passes everything else on. */
async function guarded(status: number, options: Partial<SimEngineOptions>): Promise<Guarded> {
  const { port } = new URL((await engine(options)).url)
  const [asked, refused] = [new Set<string>(), new Set<string>()]
  const proxy = createServer((request, response) => {
    const path = request.url!.split('?')[0]!
    if (request.headers.authorization !== 'Bearer k') {
      refused.add(path)
      request.resume()
      response.writeHead(status, { 'content-type': 'application/json' }).end('{"error":"no key"}')
      return
    }
    asked.add(path)
    const { method, url, headers } = request
    const onward = ask({ port, method, path: url, headers, agent: false }, (answer) => {
      response.writeHead(answer.statusCode!, answer.headers)
      answer.pipe(response)
    })
    onward.on('error', () => response.destroy())
    response.on('close', () => onward.destroy())
    request.pipe(onward)
  })
  await new Promise<void>((resolve) => proxy.listen(0, '127.0.0.1', resolve))
  open.push({
    close() {
      proxy.closeAllConnections()
      proxy.close()
    },
  })
  return { url: `http://127.0.0.1:${(proxy.address() as AddressInfo).port}`, asked, refused }
}

it.each([
  { status: 401, kind: 'vllm', paths: ['/metrics', '/tokenize'] },
  { status: 403, kind: 'vllm', paths: ['/metrics', '/tokenize'] },
  { status: 401, kind: 'sglang', paths: ['/server_info', '/v1/tokenize'] },
  { status: 403, kind: 'sglang', paths: ['/server_info', '/v1/tokenize'] },
] as const)('$kind behind a door that says $status', async ({ status, kind, paths }) => {
  const { url, asked, refused } = await guarded(status, { engine: kind })
  const words = [url, '--engine-api-key', 'k', '--health-interval-ms', '50']
  const served = await start(words)
  expect(await served.assembly.until(isExact, 60_000)).toBe(true)
  const messages = [{ role: 'user', content: 'a' }] as const
  const ai = client(served)
  const answer = await ai.chat.completions.create({ model: 'sim', messages: [...messages], max_tokens: 1 })
  expect(answer.usage!.completion_tokens).toBe(1)
  const all = ['/v1/models', '/health', '/v1/chat/completions', ...paths]
  await vi.waitFor(() => expect([...asked]).toEqual(expect.arrayContaining(all)), 20_000)
  expect([...refused]).toEqual(['/v1/models']) // each look begins without it
  refused.clear()
  const [examination] = await check({ words: [url, '--engine-api-key', 'k'], env: {} })
  expect(examination!.findings.filter(({ verdict }) => verdict === 'fail')).toEqual([])
  expect(refused.size).toBeLessThanOrEqual(1)
})
