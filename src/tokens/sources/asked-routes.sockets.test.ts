// Goal: an engine that only tokenizes is asked such that its answer is what it would have made of the request itself.
// Method: each ask is answered with what vLLM 0.32.0 and the code of SGLang 0.5.23 answered to exactly this ask.
import { createServer } from 'node:http'
import type { Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { recordedAsks, recordedRoutes } from '../chat/recorded-routes.case.js'
import { EngineTokens } from './engine-tokens.js'

/** What an engine that does not tell its template cannot be asked for; it says so. */
const untold = {
  vllm: /^(responses: .*(call|output of parts)|messages: (thinking disabled|.* in the middle))/,
  sglang:
    /^(responses: (instructions and a system message|a developer message of parts|tools|tools, one.*|a custom call.*)|.* in the middle)$/,
}

describe.each(['vllm', 'sglang'] as const)('%s', (dialect) => {
  let server: Server
  let template = ''
  const answers = new Map(
    recordedAsks(dialect).map((it) => [it.template + JSON.stringify(it.ask), JSON.stringify({ tokens: it.tokens })]),
  )
  beforeAll(async () => {
    server = createServer((request, response) => {
      let body = ''
      request.on('data', (chunk: Buffer) => (body += chunk.toString('utf8')))
      request.on('end', () => {
        if (request.url!.endsWith('/render')) return void response.writeHead(403).end('{}')
        const answer = answers.get(template + JSON.stringify(JSON.parse(body)))
        response.writeHead(answer === undefined ? 500 : 200).end(answer ?? 'nobody asked so')
      })
    })
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  })
  afterAll(() => new Promise((resolve) => server.close(resolve).closeAllConnections()))

  const cases = recordedRoutes(dialect).filter(
    ({ route, token_ids: ids }) => route !== undefined && route !== 'chat' && ids,
  )
  it.each(cases)('$template: $route: $name', async ({ route, name, request, token_ids: wanted, ...it }) => {
    const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
    const engine = new EngineTokens({ url, dialect }, { dialect, reasoningParser: null })
    template = it.template
    const raw = new TextEncoder().encode(JSON.stringify(request))
    const said = await engine.tokenize(route, request, { raw }).then(
      ({ ids, exactness }) => ({ ids: [...ids], exactness }),
      ({ reason }: { reason?: string }) => reason,
    )
    if (said === 'engine-settings' || said === 'no-tokenizer')
      return expect(`${route}: ${name}`).toMatch(untold[dialect])
    expect(said).toEqual({ ids: wanted, exactness: 'expected' })
  })
})
