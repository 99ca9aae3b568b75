// Goal: of every request it is said how its tokens are known, or why they are not: to its client, in its span, to whoever keeps a history, in the
// log of single requests, and counted by reason.
// Method: a gateway with the token service, and one request for each way.
import type { Attributes, Span, Tracer } from '@opentelemetry/api'
import { cpSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, it, vi } from 'vitest'
import type { EngineKind } from '../engines/index.js'
import { InProcessRouter } from '../routing/index.js'
import { createMetrics } from '../telemetry/index.js'
import { TokenService } from '../tokens/index.js'
import { chatBody, houseOfEachTest, json, post } from './house.case.js'
import type { House } from './house.case.js'
import type { EndedRequest, GatewayOptions, ModelSpec } from './options.js'
import { createServiceTokenizer } from './request/service-tokenizer.js'
import { observeTokens } from './telemetry/token-meters.js'

const open = houseOfEachTest()
const service = new TokenService({ threads: 1 })
/** One thread, and nobody waits for it. */
const narrow = new TokenService({ threads: 1, queueMax: 0 })
const failing = mkdtempSync(join(tmpdir(), 'warmroute-failing-'))
const endless = mkdtempSync(join(tmpdir(), 'warmroute-endless-'))
beforeAll(async () => {
  cpSync('test/fixtures/tinyllama', endless, { recursive: true })
  const loop = '{% for a in range(99999) %}'
  writeFileSync(join(endless, 'chat_template.jinja'), loop + loop + '{% endfor %}{% endfor %}')
  await narrow.setModel('endless', { path: endless })
  cpSync('test/fixtures/tinyllama', failing, { recursive: true })
  writeFileSync(join(failing, 'chat_template.jinja'), "{{ raise_exception('no: ' + messages[0].content) }}")
  await service.setModel('good', { path: 'test/fixtures/tinyllama' })
  await service.setModel('failing', { path: failing })
})
afterAll(async () => {
  await Promise.all([service.close(), narrow.close()])
  for (const folder of [failing, endless]) rmSync(folder, { recursive: true })
})

interface Said {
  readonly headers: readonly (string | null)[]
  readonly span: Attributes
  readonly ended: EndedRequest['howKnown']
  readonly logged: Record<string, unknown>
  readonly counted: string | undefined
}

const image = { type: 'image_url', image_url: { url: 'data:image/png;base64,AAAA' } }
const manyParts = { role: 'user', content: [{ type: 'text', text: 'see' }, image] }

it.each([
  { says: 'a chat that the model renders', source: 'good', path: 'chat/completions', how: 'tokenizer/proven' },
  { says: 'a text', source: 'good', path: 'completions', more: { prompt: 'hi there' }, how: 'tokenizer/proven' },
  { says: 'ids', source: 'good', path: 'completions', more: { prompt: [1, 2, 3] }, how: 'request/proven' },
  {
    says: "ids that are a client's word",
    source: 'good',
    path: 'chat/completions',
    more: { nvext: { token_data: [1, 2] } },
    how: 'request/proven',
  },
  { says: 'an image', source: 'good', path: 'chat/completions', more: { messages: [manyParts] }, why: 'media-image' },
  {
    says: 'a part whose type is an object that cannot be spelled',
    source: 'good',
    path: 'chat/completions',
    more: { messages: [{ role: 'user', content: [{ type: { toString: 1 } }] }] },
    why: 'media-other',
  },
  {
    says: 'a switch that is such an object',
    source: 'good',
    path: 'chat/completions',
    more: { continue_final_message: { toString: null } },
    why: 'malformed',
  },
  { says: 'a template that fails', source: 'failing', path: 'chat/completions', why: 'template-failed' },
  { says: 'no source', source: 'nobody', path: 'chat/completions', why: 'no-tokenizer' },
  { says: 'no tokenizer at all', source: undefined, path: 'chat/completions', why: 'no-tokenizer' },
  {
    says: 'a chat without messages',
    source: 'good',
    path: 'chat/completions',
    more: { messages: undefined },
    why: 'malformed',
  },
  {
    says: 'a text that is embedded',
    source: 'good',
    path: 'embeddings',
    more: { input: 'a text' },
    why: 'other-route',
  },
] as const)('$says', async ({ source, path, more, how, why }: Case) => {
  const said = await ask(source, `/v1/${path}`, chatBody(more))
  const [from, exactness] = how?.split('/') ?? []
  expect(said).toEqual({
    headers: [how ?? null, why ?? null],
    span: how
      ? { 'warmroute.tokens_source': from, 'warmroute.tokens_exactness': exactness }
      : { 'warmroute.load_only': why },
    ended: expect.objectContaining(how ? { source: from, exactness } : { loadOnly: why }) as EndedRequest['howKnown'],
    logged: how ? { tokens: how } : { load_only: why },
    counted: why && '1',
  } satisfies Said)
})

interface Case {
  readonly source: string | undefined
  readonly path: string
  readonly more?: object
  readonly how?: string
  readonly why?: string
}

it.each([
  { says: 'a picture beside a text', more: { text: 'hi', image_data: 'x' }, why: 'media-image' },
  { says: 'a text inside a session', more: { text: 'hi', session_params: { id: 's' } }, why: 'stored-response' },
  { says: 'vectors', more: { input_embeds: [[0.5]] }, why: 'embeddings' },
  { says: 'a text', more: { text: 'hi there' }, how: 'tokenizer/proven' },
])("SGLang's own route: $says", async ({ more, how = null, why = null }) => {
  const { headers, counted } = await ask('good', '/generate', JSON.stringify({ model: 'm', ...more }), 'sglang')
  expect([headers, counted]).toEqual([[how, why], why === null ? undefined : '1'])
})

it('each kind of engine is told apart, also where both make the same tokens', async () => {
  const others = [{ dialect: 'trtllm', workerIds: new Set([2n]) }] as const
  service.setOther('good', 'trtllm', {})
  const tokenizer = createServiceTokenizer(service, { model: 'good', others: () => others })
  const { url } = await openKv({ tokenizer })
  const said: Record<string, unknown> = {}
  for (let at = 0; at < 2; at++) {
    const worker = String(at + 1)
    const headers = { 'x-dynamo-worker-instance-id': worker }
    const asked = await post(url, '/v1/chat/completions', chatBody(), headers)
    await asked.text()
    said[worker] = asked.headers.get('x-warmroute-tokens')
  }
  service.setOther('good', 'trtllm', undefined)
  expect(said).toEqual({ 1: 'tokenizer/proven', 2: 'tokenizer/expected' })
})

it('a dry run says it beside its tokens', async () => {
  const { url } = await openKv({ tokenizer: createServiceTokenizer(service, { model: 'failing' }) })
  const answer = await post(url, '/v1/chat/completions', chatBody({ nvext: { annotations: ['query_instance_id:'] } }))
  expect(answer.headers.get('x-warmroute-load-only')).toBe('template-failed')
  expect(await json(answer)).toMatchObject({ nvext: { token_ids: [] } })
})

it.each(['are not to be shown', 'take turns, so that nobody looks at prompts'])(
  'says nothing where workers %s',
  async (isHidden) => {
    const tokenizer = createServiceTokenizer(service, { model: 'good' })
    const { url } = isHidden.startsWith('are')
      ? await openKv({ tokenizer }, { showsWorker: false })
      : await open({ engines: 1, model: { tokenizer } })
    const answer = await post(url, '/v1/chat/completions', chatBody())
    await answer.text()
    expect([...answer.headers.keys()].filter((it) => /^x-warmroute-(tokens|load-only)/.test(it))).toEqual([])
  },
)

it('tokens that are not made in time, and threads that are all at work, are said as well', async () => {
  const late = createServiceTokenizer(narrow, { model: 'endless', deadlineMs: 300 })
  const stop = new AbortController()
  const said: (string | null)[] = []
  const ask = async (url: string): Promise<void> => {
    const answer = await post(url, '/v1/chat/completions', chatBody())
    await answer.text()
    said.push(answer.headers.get('x-warmroute-load-only'))
  }
  const { url } = await openKv({ tokenizer: late })
  await ask(url)
  const raw = Buffer.from(chatBody())
  const other = narrow.tokenizeRequest('endless', 'chat', undefined, { raw, signal: stop.signal, deadlineMs: 60_000 })
  await ask(url)
  stop.abort(new Error('enough'))
  await expect(other).rejects.toThrow('enough')
  expect(said).toEqual(['deadline', 'busy'])
  const { loadOnly } = narrow.counts.prompts['endless']!
  expect(loadOnly).toMatchObject({ deadline: 1, busy: 1 })
})

async function openKv(
  model: Partial<ModelSpec>,
  gateway: Partial<GatewayOptions> = {},
  engine: EngineKind = 'vllm',
): Promise<House> {
  const router = await InProcessRouter.create({ blockSize: 16, config: { useKvEvents: false } })
  return open({ engines: 2, engine, router, model, gateway })
}

/** One request, and everything that is said of it. */
async function ask(source: string | undefined, path: string, body: string, engine?: EngineKind): Promise<Said> {
  const span: Attributes = {}
  const ended: EndedRequest[] = []
  const lines: Record<string, unknown>[] = []
  const metrics = createMetrics()
  const stop = observeTokens(metrics, service)
  metrics.registry.text() // what was counted before
  const counts = (): ReadonlyMap<string, string> => new Map(loadOnlyLines(metrics.registry.text()))
  const before = counts()
  const { url } = await openKv(
    { tokenizer: source === undefined ? undefined : createServiceTokenizer(service, { model: source }) },
    {
      metrics,
      allowedEngineFields: ['session_params'],
      tracer: tracerInto(span),
      onEnded: (it) => void ended.push(it),
      log: { debug: (fields) => void lines.push(fields), info() {}, warn() {} },
    },
    engine,
  )
  const answer = await post(url, path, body)
  await answer.text()
  await vi.waitFor(() => expect(lines).toHaveLength(1))
  const grown = [...counts()].filter(([name, count]) => before.get(name) !== count)
  stop()
  const { tokens, load_only } = lines[0]!
  const isOurs = ([name]: readonly [string, unknown]): boolean => /tokens_|load_only/.test(name)
  return {
    headers: ['x-warmroute-tokens', 'x-warmroute-load-only'].map((name) => answer.headers.get(name)),
    span: Object.fromEntries(Object.entries(span).filter((it) => isOurs(it) && !it[0].includes('output'))),
    ended: ended[0]!.howKnown,
    logged: { ...(tokens === undefined ? {} : { tokens }), ...(load_only === undefined ? {} : { load_only }) },
    counted:
      grown.length === 0
        ? undefined
        : grown.map(([name, count]) => String(Number(count) - Number(before.get(name) ?? 0))).join(),
  }
}

function loadOnlyLines(text: string): [name: string, count: string][] {
  return [...text.matchAll(/^(warmroute_load_only_prompts_total\{.*\}) (\d+)$/gm)].map(([, name, count]) => [
    name!,
    count!,
  ])
}

function tracerInto(attributes: Attributes): Tracer {
  const span = {
    setAttributes: (more: Attributes) => Object.assign(attributes, more),
    addEvent() {},
    setStatus() {},
    end() {},
    spanContext: () => ({ traceId: '', spanId: '', traceFlags: 0 }),
  }
  return { startSpan: () => span as unknown as Span } as unknown as Tracer
}
