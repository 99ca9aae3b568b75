// A chat of which nobody could find out what the engine makes of it is asked for in every form that it may have, all at once.
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { expect, it } from 'vitest'
import { warningsDuring } from '../../../test/warnings.js'
import { EngineTokens } from './engine-tokens.js'

it('more asks of one request than Node takes for a leak are none', async () => {
  let asks = 0
  const server = createServer((request, response) => {
    request.resume()
    if (request.url !== '/v1/tokenize') return void response.writeHead(404).end('{}')
    asks++
    response.end('{"tokens":[1,2,3],"count":3,"max_model_len":100}')
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  try {
    const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
    const rules = { dialect: 'sglang', reasoningParser: 'qwen3' } as const
    const engine = new EngineTokens({ url, dialect: 'sglang' }, rules)
    const thoughts = [{ type: 'thinking', thinking: 'Let me see.', signature: '' }]
    const messages = [
      { role: 'user', content: 'Hi' },
      { role: 'assistant', content: [...thoughts, { type: 'text', text: 'Hello' }] },
      { role: 'system', content: 'Be brief.' },
      { role: 'user', content: 'Go on' },
    ]
    const request = { model: 'm', max_tokens: 1, system: 'Be kind.', thinking: { type: 'disabled' }, messages }
    const { signal } = new AbortController()
    const before = asks
    const warnings = await warningsDuring(() => engine.tokenize('messages', request, { signal }))
    expect(asks - before).toBeGreaterThan(10)
    expect(warnings).toEqual([])
  } finally {
    server.close().closeAllConnections()
  }
})
