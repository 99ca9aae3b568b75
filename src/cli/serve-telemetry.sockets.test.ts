/** What an operator of `serve` can see of single requests, in logs and traces, and what nobody may see there. */
import { AsyncLocalStorage } from 'node:async_hooks'
import type { Attributes, Context, ContextManager, Span, Tracer, TracerProvider } from '@opentelemetry/api'
import { context as contexts, propagation, ROOT_CONTEXT, trace } from '@opentelemetry/api'
import { afterEach, describe, expect, it, vi } from 'vitest'
import { serveOfEachTest } from './serve-house.case.js'

const { engine, start } = serveOfEachTest()

afterEach(() => {
  vi.restoreAllMocks()
  trace.disable()
  contexts.disable()
  propagation.disable()
})

function captureStderr(): () => string {
  let text = ''
  vi.spyOn(process.stderr, 'write').mockImplementation((chunk) => {
    text += String(chunk)
    return true
  })
  return () => text
}

describe('the log', () => {
  const body = { model: 'sim', messages: [{ role: 'user', content: 'hello' }], max_tokens: 4 }

  it.each([
    ['json', 'debug', '"request_id":"mine"'],
    ['text', 'debug', 'request_id=mine'],
    ['json', 'info', undefined],
    ['text', 'info', undefined],
    ['off', 'debug', undefined],
  ])('%s at level %s has a line for each request by its id: %s', async (form, level, expected) => {
    const written = captureStderr()
    const served = await start([(await engine()).url, '--log', form, '--log-level', level])
    const headers = { 'content-type': 'application/json', 'x-request-id': 'mine' }
    const init = { method: 'POST', headers, body: JSON.stringify(body) }
    await (await fetch(`${served.address.url}/v1/chat/completions`, init)).text()
    if (expected === undefined) expect(written()).not.toContain('mine')
    else await vi.waitFor(() => expect(written()).toContain(expected))
    if (form !== 'off') expect(written()).toContain('a worker joined')
  })

  it('at level warn is silent while everything goes well', async () => {
    const written = captureStderr()
    const served = await start([(await engine()).url, '--log', 'json', '--log-level', 'warn'])
    await served.close()
    expect(written()).toBe('')
  })

  it.each(['json', 'text'])(
    '%s never holds a prompt or a key, whatever is asked and whatever goes wrong',
    async (form) => {
      const written = captureStderr()
      const engines = [await engine(), await engine({ engine: 'sglang' })]
      const keys = ['--engine-api-key', 'MARK-engine', '--api-key', 'MARK-client', '--admin-key', 'MARK-admin']
      const said = ['--log', form, '--log-level', 'debug', '--host', '127.0.0.1', '--hub-token', 'MARK-hub']
      const served = await start([...engines.map(({ url }) => url), ...keys, ...said])
      const { url } = served.address
      const send = async (method: string, path: string, text: string | undefined, key: string): Promise<void> => {
        const headers = {
          'content-type': 'application/json',
          authorization: `Bearer ${key}`,
          'x-tenant-id': 'MARK-tenant',
          'x-request-id': path.replaceAll('/', '-'),
        }
        const init = text === undefined ? { method, headers } : { method, headers, body: text }
        await (await fetch(`${url}${path}`, init)).text()
      }
      const word = 'MARK-prompt'
      const texts = ['prompt', 'input', 'text', 'query', 'text_1', 'text_2', 'system', 'instructions']
      const prompt = {
        model: 'sim',
        ...Object.fromEntries(texts.map((name) => [name, word])),
        documents: [word],
        tools: [{ name: word }],
        messages: [{ role: 'user', content: word }],
        max_tokens: 4,
        nvext: { session_control: { session_id: 's', action: word } },
      }
      const plain = { ...prompt, tools: undefined, nvext: undefined }
      const bodies = [plain, { ...plain, stream: true }, prompt, { ...plain, model: word }, word].map((it) =>
        JSON.stringify(it),
      )
      const { paths } = (await (await fetch(`${url}/openapi.json`)).json()) as { paths: Record<string, object> }
      const posts = Object.entries(paths).filter(([path, methods]) => 'post' in methods && !path.includes('{'))
      expect(posts.length).toBeGreaterThan(15)
      for (const [path] of posts)
        for (const text of [...bodies, `{"prompt": "${word}`]) await send('POST', path, text, 'MARK-client')
      await send('POST', '/v1/chat/completions', bodies[0], 'MARK-wrong')
      for (const path of ['/workers', '/router', '/busy_threshold', '/models/sim/tokenizer'])
        for (const text of [JSON.stringify({ url: 'http://127.0.0.1:9', api_key: 'MARK-worker', ...prompt }), word])
          await send('POST', path, text, 'MARK-admin')
      await send('GET', `/v1/models/${word}`, undefined, 'MARK-client')
      await engines[0]!.close()
      for (let at = 0; at < 4; at++) await send('POST', '/v1/chat/completions', bodies[at % 2], 'MARK-client')
      await vi.waitFor(() => expect(written()).toContain('a worker left'), { timeout: 30_000 })
      await served.close()
      expect(written()).toContain('-v1-chat-completions')
      const lines = written().split('\n')
      expect(lines.filter((line) => line.includes('MARK'))).toEqual([])
    },
  )
})

interface Recorded {
  readonly name: string
  readonly attributes: Attributes
  /** The name of the span above it, or the client's header. */
  readonly parent: string | undefined
  isEnded: boolean
}

/** A tracing SDK, as small as can be: keeps what it is told, follows contexts, and speaks W3C's header. */
function recordSpans(): Recorded[] {
  const spans: Recorded[] = []
  const names = new Map<Span, string>()
  const remote = Symbol('remote')
  const tracer = {
    startSpan(name: string, options: { attributes?: Attributes } | undefined, above: Context = contexts.active()) {
      const parent = names.get(trace.getSpan(above)!) ?? (above.getValue(remote) as string | undefined)
      const record: Recorded = { name, attributes: { ...options?.attributes }, parent, isEnded: false }
      spans.push(record)
      const spanId = String(spans.length).padStart(16, '0')
      const span = {
        setAttributes: (more: Attributes) => Object.assign(record.attributes, more),
        addEvent: () => {},
        setStatus: () => {},
        end: () => void (record.isEnded = true),
        spanContext: () => ({ traceId: traceId, spanId, traceFlags: 1 }),
      } as unknown as Span
      names.set(span, name)
      return span
    },
  } as unknown as Tracer
  trace.setGlobalTracerProvider({ getTracer: () => tracer } satisfies TracerProvider)
  const storage = new AsyncLocalStorage<Context>()
  const manager: ContextManager = {
    active: () => storage.getStore() ?? ROOT_CONTEXT,
    with: (context, work, thisArg, ...args) => storage.run(context, () => work.apply(thisArg, args)),
    bind: (_context, target) => target,
    enable: () => manager,
    disable: () => manager,
  }
  contexts.setGlobalContextManager(manager)
  propagation.setGlobalPropagator({
    extract: (context, carrier: Record<string, string>) => context.setValue(remote, carrier['traceparent']),
    inject: (_context, _carrier) => {},
    fields: () => ['traceparent'],
  })
  return spans
}

const traceId = '0af7651916cd43dd8448eb211c80319c'

it('makes spans where the process has a tracing SDK: the request below its client, the steps of the choice below the request', async () => {
  const spans = recordSpans()
  const served = await start([(await engine()).url])
  const traceparent = `00-${traceId}-b7ad6b7169203331-01`
  const headers = { 'content-type': 'application/json', 'x-request-id': 'mine', traceparent }
  const body = JSON.stringify({ model: 'sim', messages: [{ role: 'user', content: 'hello' }], max_tokens: 4 })
  await (await fetch(`${served.address.url}/v1/chat/completions`, { method: 'POST', headers, body })).text()
  await served.close()
  expect(spans.every(({ isEnded }) => isEnded)).toBe(true)
  const of = (name: string): Recorded[] => spans.filter((it) => it.name === name)
  expect(of('warmroute.request').map(({ parent }) => parent)).toEqual([traceparent])
  expect(of('warmroute.request')[0]!.attributes).toMatchObject({
    'warmroute.request_id': 'mine',
    'warmroute.worker_id': '1',
    'http.response.status_code': 200,
  })
  expect(of('kv_router.schedule').map(({ parent }) => parent)).toEqual(['warmroute.request'])
})
