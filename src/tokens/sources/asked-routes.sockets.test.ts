// Goal: an engine that only tokenizes is asked such that its answer is what it would have made of the request itself; what no ask
// can find out is load-only, and says why.
// Method: each ask is answered with what vLLM 0.32.0 and the code of SGLang 0.5.23 answered to exactly this ask. What SGLang was
// never asked is rendered with its template by our own rules, which the recordings of its requests prove.
import { createServer } from 'node:http'
import type { Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { afterAll, afterEach, beforeAll, describe, expect, it, vi } from 'vitest'
import { unkept } from '../../core/protocol/index.js'
import type { Body, Dialect, Route } from '../chat/request.js'
import { recordedAsks, recordedRoutes } from '../chat/recorded-routes.case.js'
import { loadModel } from '../model/loaded-model.js'
import { tinyllamaFolder } from '../real-tokenizers.case.js'
import { parseTemplate } from '../template/parse.js'
import { EngineTokens } from './engine-tokens.js'
import type { ToldEngine } from './learnt-engine.case.js'
import { toldEngine } from './learnt-engine.case.js'

/** What an engine that does not tell its template cannot be asked for; it says so. */
const untold = {
  vllm: /^responses: .*(call|output of parts)/,
  sglang: /^responses: (tools|tools, one.*|a custom call.*)$/,
}

const loaded = loadModel(tinyllamaFolder, 'asked')
const parse = (templates: readonly { readonly name: string; readonly source: string }[]) =>
  Promise.resolve(templates.map((it) => ({ ...it, parsed: parseTemplate(it.source) })))

function engineOf(source: string, dialect: Dialect): ToldEngine {
  const templates = [{ name: 'default', source, parsed: parseTemplate(source) }]
  return toldEngine({ ...loaded, templates }, { dialect, reasoningParser: null })
}

/** Answers for the engine of one template at a time. */
class AskedServer {
  readonly #dialect: Dialect
  readonly #engines: ReadonlyMap<string, ToldEngine>
  readonly #answers: ReadonlyMap<string, object>
  readonly #http: Server
  template = ''
  tells = false

  constructor(dialect: Dialect) {
    this.#dialect = dialect
    const sources = recordedRoutes(dialect).flatMap(({ template, source }) =>
      source ? [[template, source] as const] : [],
    )
    this.#engines = new Map(sources.map(([template, source]) => [template, engineOf(source, dialect)]))
    this.#answers = new Map(
      recordedAsks(dialect).map(({ template, ask, tokens, count, status }) => [
        template + JSON.stringify(ask),
        status === undefined ? { tokens, input_tokens: count } : { status },
      ]),
    )
    this.#http = createServer((request, response) => {
      let text = ''
      request.on('data', (chunk: Buffer) => (text += chunk.toString('utf8')))
      request.on('end', () => {
        const said = this.#answer(request.url!, text === '' ? {} : (JSON.parse(text) as Body))
        const status = typeof said === 'number' ? said : 200
        response.writeHead(status).end(typeof said === 'number' ? '{}' : JSON.stringify(said))
      })
    })
  }

  #answer(path: string, body: Body): object | number {
    const engine = this.#engines.get(this.template)!
    if (path === '/tokenizer_info') return this.tells ? engine.info : 404
    if (path.endsWith('/render')) return 403
    if (typeof body['prompt'] === 'string')
      return { tokens: [...engine.encode(body['prompt'], body['add_special_tokens'] !== false)] }
    const recorded = this.#answers.get(this.template + JSON.stringify(body)) as { status?: number } | undefined
    if (recorded) return recorded.status ?? recorded
    if (this.#dialect !== 'sglang') return 500 // nobody asked so
    const rendered = (route: Route): number[] | undefined => {
      try {
        return [...engine.render(route, body)]
      } catch {
        return undefined
      }
    }
    if (path === '/v1/messages/count_tokens') return { input_tokens: rendered('messages')?.length }
    const tokens = rendered('chat')
    return tokens ? { tokens } : 400
  }

  async listen(): Promise<void> {
    await new Promise<void>((resolve) => this.#http.listen(0, '127.0.0.1', resolve))
  }

  get url(): string {
    return `http://127.0.0.1:${(this.#http.address() as AddressInfo).port}`
  }

  async close(): Promise<void> {
    await new Promise((resolve) => this.#http.close(resolve).closeAllConnections())
  }
}

/** Calls that tell V8 all names of an object that lies in a map: it would keep them (docs/decisions/0273). */
const tellsNames = vi.spyOn(
  handlerOf(() => unkept(new Map())),
  'ownKeys',
)
afterEach(() => tellsNames.mockClear())

/** Of all objects that lie in maps. */
function handlerOf(make: () => unknown): { ownKeys(): string[] } {
  let handler: object = {}
  const Real = Proxy
  vi.stubGlobal('Proxy', function (target: object, given: ProxyHandler<object>) {
    handler = given
    return new Real(target, given)
  })
  make()
  vi.unstubAllGlobals()
  return Object.getPrototypeOf(handler) as { ownKeys(): string[] }
}

describe.each(['vllm', 'sglang'] as const)('%s', (dialect) => {
  const server = new AskedServer(dialect)
  beforeAll(() => server.listen())
  afterAll(() => server.close())

  const cases = recordedRoutes(dialect).filter(
    ({ route, token_ids: ids }) => route !== undefined && route !== 'chat' && ids,
  )

  /** `isUnkept`: the body was left unread for what V8 would keep of it. */
  async function asked(
    { template, route, request }: (typeof cases)[number],
    { tells = false, isUnkept = false } = {},
  ): Promise<unknown> {
    server.template = template
    server.tells = tells
    const engine = new EngineTokens({ url: server.url, dialect }, { dialect, reasoningParser: null })
    if (tells) expect(await engine.learn(parse)).toBe(false)
    const raw = new TextEncoder().encode(JSON.stringify(request))
    return engine.tokenize(route, isUnkept ? undefined : request, { raw }).then(
      ({ ids, exactness }) => (tells ? [...ids] : { ids: [...ids], exactness }),
      ({ reason }: { reason?: string }) => reason,
    )
  }

  it.each(cases)('$template: $route: $name', async (recorded) => {
    const said = await asked(recorded)
    const isUntold = untold[dialect].test(`${recorded.route}: ${recorded.name}`)
    const reason = dialect === 'vllm' ? 'engine-settings' : 'no-tokenizer'
    expect(said).toEqual(isUntold ? reason : { ids: recorded.token_ids, exactness: 'expected' })
    expect(await asked(recorded, { isUnkept: true })).toEqual(said)
    expect(tellsNames).not.toHaveBeenCalled()
  })

  if (dialect === 'vllm')
    it.each(cases)('that tells its template, $template: $route: $name', async (recorded) => {
      expect(await asked(recorded, { tells: true })).toEqual(recorded.token_ids)
      expect(await asked(recorded, { tells: true, isUnkept: true })).toEqual(recorded.token_ids)
      expect(tellsNames).not.toHaveBeenCalled()
    })
})

// Why the rest cannot be found out: two engines that answer every ask alike, and serve the request differently.
describe('no ask tells apart', () => {
  const say = (call: string): string =>
    `{{ bos_token }}{% for m in messages %}{{ m['content'] or '' }}{% for c in m['tool_calls'] or [] %}${call}{% endfor %}{% endfor %}`

  it('a vLLM whose template writes a call as it is from one that writes arguments and name', () => {
    const written = engineOf(say("{{ c['function'] | tojson }}"), 'vllm')
    const named = engineOf(
      say(
        `{{ '{"arguments": ' }}{{ c['function']['arguments'] | tojson }}{{ ', "name": ' }}{{ c['function']['name'] | tojson }}{{ '}' }}`,
      ),
      'vllm',
    )
    const call = { id: 'c1', type: 'function', function: { name: 'f', arguments: '{"x":1}' } }
    const chat: Body = {
      messages: [
        { role: 'assistant', tool_calls: [call] },
        { role: 'user', content: 'x' },
      ],
    }
    expect(written.render('chat', chat)).toEqual(named.render('chat', chat))
    const response: Body = { input: [{ type: 'function_call', call_id: 'c1', name: 'f', arguments: '{"x":1}' }] }
    expect(written.render('responses', response)).not.toEqual(named.render('responses', response))
  })

  it('an SGLang whose template writes a tool as it is from one that writes what is missing last', () => {
    const head = '{{ bos_token }}{% for m in messages %}{{ m.content }}{% endfor %}'
    const written = engineOf(`${head}{% for t in tools or [] %}{{ t.function | tojson }}{% endfor %}`, 'sglang')
    const last = engineOf(
      `${head}{% for t in tools or [] %}{{ {'name': t.function.name, 'parameters': t.function.parameters, 'description': t.function.description} | tojson }}{% endfor %}`,
      'sglang',
    )
    const messages = [{ role: 'user', content: 'x' }]
    // What is null in an ask is gone before SGLang reads it, so that every ask puts it last.
    const chat: Body = { messages, tools: [{ type: 'function', function: { name: 'f', parameters: {} } }] }
    expect(written.render('chat', chat)).toEqual(last.render('chat', chat))
    const response: Body = { input: 'x', tools: [{ type: 'function', name: 'f', parameters: {}, strict: null }] }
    expect(written.render('responses', response)).not.toEqual(last.render('responses', response))
  })
})
