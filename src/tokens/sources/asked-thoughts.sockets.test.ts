// Goal: what an SGLang with a reasoning parser makes of thoughts and of the switch of thinking is found out by asking it, without its
// template; and what asking cannot find out is load-only.
// Method: every ask is answered with what the code of SGLang 0.5.23 answers to exactly this ask, under exactly this template and parser;
// once with its encoder for DeepSeek 3.2 in place of a template, which takes thoughts as a field.
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { recordedThoughtAsks, recordedThoughts } from '../chat/recorded-routes.case.js'
import { reasoningParserOf } from '../chat/reasoning-parsers.js'
import { EngineTokens } from './engine-tokens.js'

const answers = new Map(
  recordedThoughtAsks().map(({ template, parser, path, ask, ...answer }) => [
    `/${template}/${parser}${path} ${JSON.stringify(ask)}`,
    answer,
  ]),
)
const used = new Set<string>()

const server = createServer((request, response) => {
  let text = ''
  request.on('data', (chunk: Buffer) => (text += chunk.toString('utf8')))
  request.on('end', () => {
    const key = `${request.url!} ${text}`
    used.add(key)
    const { status = 200, ...answer } = answers.get(key) ?? { status: 500 } // nobody asked so
    response.writeHead(status).end(JSON.stringify(answer))
  })
})
beforeAll(() => new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve)))
afterAll(() => new Promise((resolve) => server.close(resolve).closeAllConnections()))

const engines = new Map<string, EngineTokens>()

function engineOf(template: string, reasoningParser: string): EngineTokens {
  const path = `${template}/${reasoningParser}`
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/${path}`
  const engine =
    engines.get(path) ?? new EngineTokens({ url, dialect: 'sglang' }, { dialect: 'sglang', reasoningParser })
  engines.set(path, engine)
  return engine
}

const cases = recordedThoughts().flatMap((it) =>
  it.request !== undefined && it.parser !== null && reasoningParserOf(it.parser) ? [{ ...it, parser: it.parser }] : [],
)

/** Of templates and an encoder that write as many tokens for thinking as for none: counts do not tell which argument it is. */
const mayBeUntold = /^(switch-.*(adaptive|disabled)|encoder-.*(enabled|adaptive|session).*)$/
const untold: string[] = []

it.each(cases)('$template, $parser: $name', async ({ template, parser, name, request, token_ids: wanted }) => {
  const said = await engineOf(template, parser)
    .tokenize('messages', request, {})
    .then(
      ({ ids, exactness }) => ({ ids: [...ids], exactness }),
      ({ reason }: { reason?: string }) => reason,
    )
  const title = `${template}, ${parser}: ${name}`
  if (said === 'engine-settings' && mayBeUntold.test(title)) untold.push(title)
  else expect(said).toEqual(wanted ? { ids: wanted, exactness: 'expected' } : 'malformed')
})

it('has asked everything that was recorded, and could not find out 81 of 699', () => {
  expect([untold.length, cases.length]).toEqual([81, 699])
  expect([...answers.keys()].filter((key) => !used.has(key))).toEqual([])
})
