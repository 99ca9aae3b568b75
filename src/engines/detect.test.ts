import { expect, it } from 'vitest'
import { readText } from '../../test/recordings.js'
import { detectEngine } from './detect.js'
import { reachableEndpoint } from './engine-facts.js'
import type { Probe, ProbeReply } from './probe.js'

type Replies = Readonly<Record<string, { readonly status: number; readonly body: string }>>

/** Answers as the recorded server did; what was not recorded is a 404. */
function recorded(file: string, more: Replies = {}): Probe & { readonly asked: string[] } {
  return answering({ ...(JSON.parse(readText(file)) as Replies), ...more })
}

function answering(replies: Replies): Probe & { readonly asked: string[] } {
  const asked: string[] = []
  return {
    host: '10.0.0.5',
    asked,
    get(path): Promise<ProbeReply> {
      asked.push(path)
      const reply = replies[path]
      return Promise.resolve({ status: reply?.status ?? 404, text: reply?.body ?? '{"detail":"Not Found"}' })
    },
  }
}

const ok = (body: unknown) => ({ status: 200, body: typeof body === 'string' ? body : JSON.stringify(body) })

it('knows a vLLM by its event sources, asked first, and reads every fact with its source', async () => {
  const probe = recorded('vllm/probes.json', { '/metrics': ok(readText('vllm/metrics.txt.gz')) })
  const facts = await detectEngine(probe)
  expect(probe.asked[0]).toBe('/kv_event_sources')
  expect(facts).toMatchObject({
    kind: { value: 'vllm', source: '/kv_event_sources' },
    version: { value: '0.32.0', source: '/version' },
    models: { value: [{ name: 'tiny', root: './model', contextTokens: 8192 }] },
    adapters: { value: [] },
    tokenizer: { value: './model' },
    blockSize: { value: 32 },
    usableBlocks: { value: 299 },
    dpRanks: { value: 1 },
    hasPrefixCache: { value: true },
    isEagle: { value: false },
    batchTokensMax: { source: '/server_info?config_format=json (dev mode)' },
    eventSources: {
      value: [
        {
          dpRank: 0,
          endpoint: 'tcp://10.0.0.5:5557',
          replayEndpoint: 'tcp://10.0.0.5:5558',
          topic: 'kv-events',
          bufferSteps: 10_000,
        },
      ],
    },
  })
  expect(Number(facts.incarnation?.value)).toBeGreaterThan(1e9)
})

it.each([
  { chat: 405, pooling: 404, generates: undefined },
  { chat: 404, pooling: 405, generates: false },
  { chat: 405, pooling: 405, generates: undefined }, // as versions were that offered every route
  { chat: 404, pooling: 404, generates: undefined }, // a proxy that knows neither
])('a vLLM that answers chat with $chat and pooling with $pooling: generates $generates', async (statuses) => {
  const probe = recorded('vllm/probes.json', {
    '/v1/chat/completions': { status: statuses.chat, body: '' },
    '/pooling': { status: statuses.pooling, body: '' },
  })
  expect((await detectEngine(probe)).generates?.value).toBe(statuses.generates)
})

it.each([true, false])('an SGLang says whether its model generates: %s', async (generates) => {
  const probe = recorded('sglang/probes.json', { '/model_info': ok({ is_generation: generates }) })
  expect((await detectEngine(probe)).generates?.value).toBe(generates)
})

it.each([
  ['eagle3', true],
  ['deepseek_mtp', true],
  ['ngram', false],
])('in development mode vLLM says how it speculates: %s gives a block up: %s', async (method, isEagle) => {
  const config = { vllm_config: { speculative_config: { method } } }
  const probe = recorded('vllm/probes.json', {
    '/metrics': ok(`${readText('vllm/metrics.txt.gz')}\nvllm:spec_decode_num_drafts_total{engine="0"} 3\n`),
    '/server_info?config_format=json': ok(config),
  })
  expect((await detectEngine(probe)).isEagle).toMatchObject({ value: isEagle })
})

it.each([
  ['NixlConnector', 'nixl', undefined],
  ['NixlPushConnector', 'nixl_push', undefined],
  ['LMCacheConnectorV1', 'shared_cache', undefined],
  ['P2pNcclConnector', undefined, 'P2pNcclConnector'],
  ['MultiConnector', undefined, 'MultiConnector'],
])('in development mode vLLM names its connector, and %s is not guessed at', async (name, connector, unspoken) => {
  const config = { vllm_config: { kv_transfer_config: { kv_connector: name, kv_role: 'kv_producer' } } }
  const facts = await detectEngine(recorded('vllm/probes.json', { '/server_info?config_format=json': ok(config) }))
  expect([facts.role?.value, facts.connector?.value, facts.unspokenConnector?.value]).toEqual([
    'prefill',
    connector,
    unspoken,
  ])
})

it('orders the ranks of a data-parallel vLLM and counts blocks per rank', async () => {
  const metrics = { '/metrics': ok(readText('vllm/metrics-dp2.txt.gz')) }
  const facts = await detectEngine(recorded('vllm/probes-dp2.json', metrics))
  expect(facts.dpRanks).toEqual({ value: 2, source: '/kv_event_sources' })
  expect(facts.eventSources?.value.map((it) => it.endpoint)).toEqual(['tcp://10.0.0.5:5577', 'tcp://10.0.0.5:5578'])
  expect(facts.usableBlocks?.value).toBe(299) // the metric says 600, over both ranks
})

it('reads from the server info which prompts an SGLang builds by other templates', async () => {
  const info = {
    page_size: 1,
    model_path: 'lmsys/vicuna-7b',
    completion_template: 'star_coder',
    enable_multimodal: true,
  }
  const facts = await detectEngine(recorded('sglang/probes.json', { '/server_info': ok(info) }))
  expect(facts.otherTemplates?.value).toEqual({ chats: expect.any(String), texts: expect.any(String) })
  expect(facts.takesMedia).toEqual({ value: true, source: '/server_info enable_multimodal' })
})

it('knows an SGLang that serves the language model alone, which takes no media whatever else it was told', async () => {
  for (const told of [null, true]) {
    const info = { page_size: 1, enable_multimodal: told, language_model_only: true }
    const { takesMedia } = await detectEngine(recorded('sglang/probes.json', { '/server_info': ok(info) }))
    expect(takesMedia).toEqual({ value: false, source: '/server_info language_model_only' })
  }
  const info = { page_size: 1, enable_multimodal: null, language_model_only: false }
  const { takesMedia } = await detectEngine(recorded('sglang/probes.json', { '/server_info': ok(info) }))
  expect(takesMedia).toBeUndefined()
})

it('reads an SGLang from its server info', async () => {
  const facts = await detectEngine(recorded('sglang/probes.json'))
  expect(facts).toMatchObject({
    kind: { value: 'sglang', source: '/' },
    version: { value: '0.5.23' },
    blockSize: { value: 32 },
    usableBlocks: { value: 300 },
    dpRanks: { value: 1 },
    hasPrefixCache: { value: true },
    isEagle: { value: false },
    batchTokensMax: { value: 4096 },
    tokenizer: { value: './sgmodel' },
    eventSources: {
      value: [
        { dpRank: 0, endpoint: 'tcp://10.0.0.5:5657', replayEndpoint: 'tcp://10.0.0.5:5667', topic: 'kv-events' },
      ],
    },
  })
  expect(facts.role).toBeUndefined()
})

it('takes the ports of an older SGLang from its launch argument, and null as off', async () => {
  const info = (config: unknown, more = {}) =>
    answering({
      '/v1/models': ok({ data: [{ id: 'm', owned_by: 'sglang' }] }),
      '/server_info': ok({ page_size: 16, dp_size: 2, kv_events_config: config, ...more }),
    })
  const launch = JSON.stringify({ publisher: 'zmq', endpoint: 'tcp://*:6000', replay_endpoint: 'tcp://*:6100' })
  const { eventSources } = await detectEngine(info(launch))
  expect(eventSources?.value.map((it) => it.replayEndpoint)).toEqual(['tcp://10.0.0.5:6100', 'tcp://10.0.0.5:6101'])
  expect((await detectEngine(info('{}'))).eventSources?.value).toEqual([])
  const eagle = await detectEngine(info(null, { speculative_algorithm: 'EAGLE3', disaggregation_mode: 'prefill' }))
  expect(eagle).toMatchObject({ isEagle: { value: true }, role: { value: 'prefill' }, eventSources: { value: [] } })
})

it.each<[unknown, number | undefined]>([
  [1, 1],
  [65_535, 65_535],
  [0, undefined],
  [65_536, undefined],
  [-1, undefined],
  [8998.5, undefined],
  ['8998', undefined],
  [null, undefined],
])('takes %j for the bootstrap port of a prefill server as %j', async (said, port) => {
  const info = (mode: string) =>
    answering({
      '/v1/models': ok({ data: [{ id: 'm', owned_by: 'sglang' }] }),
      '/server_info': ok({ page_size: 16, disaggregation_mode: mode, disaggregation_bootstrap_port: said }),
    })
  expect((await detectEngine(info('prefill'))).bootstrapPort?.value).toBe(port)
  expect((await detectEngine(info('decode'))).bootstrapPort).toBeUndefined()
})

it.each([
  [
    'an adapter card',
    {
      data: [
        { id: 'b', owned_by: 'vllm', root: 'r' },
        { id: 'a', parent: 'b' },
      ],
    },
    'vllm',
  ],
  ['the Rust front end', { data: [{ id: 'b', owned_by: 'vllm-frontend-rs' }] }, 'vllm'],
  ['TensorRT-LLM', { data: [{ id: 'b', owned_by: 'tensorrt_llm' }] }, 'trtllm'],
  ['Ollama', { data: [{ id: 'b', owned_by: 'library' }] }, 'ollama'],
  ['nobody', { data: [{ id: 'b', owned_by: 'someone' }] }, 'unknown'],
])('knows %s by its owner', async (_, models, kind) => {
  const facts = await detectEngine(answering({ '/v1/models': ok(models) }))
  expect(facts.kind.value).toBe(kind)
  if (kind === 'vllm') expect(facts.eventSources).toBeUndefined()
})

it('says unknown, and nothing else, of an address where nothing or nonsense answers', async () => {
  const silent: Probe = { host: 'h', get: () => Promise.resolve(undefined) }
  expect(await detectEngine(silent)).toEqual({ kind: { value: 'unknown', source: 'nothing it answered is known' } })
  for (const body of ['', '[]', '{"data":3}', '{"data":[null,{"id":7}]}', 'null', '{']) {
    const paths = ['/', '/kv_event_sources', '/v1/models', '/server_info', '/version', '/metrics', '/info']
    const facts = await detectEngine(answering(Object.fromEntries(paths.map((path) => [path, ok(body)]))))
    expect(facts.kind.value).toBe('unknown')
  }
})

it('puts the HTTP host in place of a wildcard, and leaves other hosts alone', () => {
  expect(reachableEndpoint('tcp://*:5557', 'gpu1')).toBe('tcp://gpu1:5557')
  expect(reachableEndpoint('tcp://0.0.0.0:5557', 'gpu1')).toBe('tcp://gpu1:5557')
  expect(reachableEndpoint('tcp://10.1.1.1:5557', 'gpu1')).toBe('tcp://10.1.1.1:5557')
  expect(reachableEndpoint('ipc:///tmp/x', 'gpu1')).toBe('ipc:///tmp/x')
})
