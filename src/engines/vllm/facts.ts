/** Where each fact of a vLLM server lives. `/kv_event_sources` came with a recent version; before it nothing on plain HTTP tells the ports. */
import type { AdapterFact, EngineFacts, EventSourceFact, ServedModel } from '../engine-facts.js'
import { fact, reachableEndpoint } from '../engine-facts.js'
import type { JsonRecord } from '../json.js'
import { asCount, asList, asRecord, asText, parseRecord } from '../json.js'
import type { MetricSample } from '../metrics-text.js'
import { pickSamples } from '../metrics-text.js'
import type { Probe } from '../probe.js'
import type { Connector } from '../transfer/connector.js'

const devPath = '/server_info?config_format=json'

export async function vllmFacts(probe: Probe, models: JsonRecord | undefined): Promise<Omit<EngineFacts, 'kind'>> {
  const [version, sources, metrics, devInfo] = await Promise.all(
    ['/version', '/kv_event_sources', '/metrics', devPath].map(async (path) => {
      const reply = await probe.get(path)
      return reply?.status === 200 ? reply.text : undefined
    }),
  )
  const versionText = asText(parseRecord(version)?.['version'])
  return {
    ...(versionText && { version: fact(versionText, '/version') }),
    ...fromModels(models),
    ...fromMetrics(metrics ?? ''),
    ...fromDevInfo(asRecord(parseRecord(devInfo)?.['vllm_config']), probe.host),
    ...fromSources(parseRecord(sources), probe.host),
    ...(await poolingFact(probe)),
  }
}

/** What a running vLLM says that another process, or one that was scaled, would not; undefined where it does not say when it started. */
export function vllmWitness(metrics: string): string | undefined {
  const facts = fromMetrics(metrics)
  return facts.incarnation && JSON.stringify(facts)
}

/** Routes are asked with GET, which one that is there refuses with 405. Versions that offer both refuse the wrong one themselves. */
async function poolingFact(probe: Probe): Promise<Pick<EngineFacts, 'generates'>> {
  if ((await probe.get('/pooling'))?.status !== 405) return {}
  const chat = await probe.get('/v1/chat/completions')
  return chat?.status === 404 ? { generates: fact(false, 'GET /pooling') } : {}
}

/** Base cards carry the root that names the tokenizer; adapter cards carry a parent. */
export function fromModels(models: JsonRecord | undefined): Pick<EngineFacts, 'models' | 'adapters' | 'tokenizer'> {
  const cards = asList(models?.['data'])
    .map(asRecord)
    .filter((card) => card !== undefined)
  const served: ServedModel[] = []
  const adapters: AdapterFact[] = []
  for (const card of cards) {
    const name = asText(card['id'])
    const base = asText(card['parent'])
    if (name === undefined) continue
    if (base !== undefined) adapters.push({ name, base })
    else served.push({ name, root: asText(card['root']), contextTokens: asCount(card['max_model_len']) })
  }
  const tokenizer = served[0]?.root
  return {
    ...(served.length > 0 && { models: fact(served, '/v1/models') }),
    ...(cards.length > 0 && { adapters: fact(adapters, '/v1/models') }),
    ...(tokenizer && { tokenizer: fact(tokenizer, '/v1/models root') }),
  }
}

/** Keys are ranks as text, in no order; ports are already offset per rank. */
function fromSources(sources: JsonRecord | undefined, host: string): Pick<EngineFacts, 'eventSources' | 'dpRanks'> {
  if (!sources) return {}
  const found: EventSourceFact[] = []
  for (const [rank, value] of Object.entries(sources)) {
    const source = readSource(Number(rank), asRecord(value), host)
    if (source) found.push(source)
  }
  found.sort((a, b) => a.dpRank - b.dpRank)
  return {
    eventSources: fact(found, '/kv_event_sources'),
    ...(found.length > 0 && { dpRanks: fact(found.length, '/kv_event_sources') }),
  }
}

function readSource(dpRank: number, config: JsonRecord | undefined, host: string): EventSourceFact | undefined {
  const endpoint = asText(config?.['endpoint'])
  if (!Number.isInteger(dpRank) || dpRank < 0 || !endpoint) return undefined
  if (config?.['enable_kv_cache_events'] !== true || config['publisher'] !== 'zmq') return undefined
  const replay = asText(config['replay_endpoint'])
  return {
    dpRank,
    endpoint: reachableEndpoint(endpoint, host),
    replayEndpoint: replay && reachableEndpoint(replay, host),
    topic: asText(config['topic']) ?? '',
    bufferSteps: asCount(config['buffer_steps']),
  }
}

/**
 * `num_gpu_blocks` counts the blocks of every rank of the front end; `kv_cache_size_tokens` (v0.24 on) is per rank, so it
 * is asked first. One block is the engine's own.
 */
function fromMetrics(text: string): Omit<EngineFacts, 'kind'> {
  const source = '/metrics vllm:cache_config_info'
  const samples = pickSamples(text, ['vllm:cache_config_info', 'vllm:spec_decode_', 'process_start_time_seconds'])
  const configs = samples.filter((sample) => sample.name === 'vllm:cache_config_info')
  const labels = configs[0]?.labels
  const started = samples.find((sample) => sample.name === 'process_start_time_seconds')
  const blockSize = positive(labels?.['block_size'])
  const ranks = new Set(configs.map((sample) => sample.labels['engine'])).size
  const blocks = blocksPerRank(labels, blockSize, ranks)
  return {
    ...(blockSize && { blockSize: fact(blockSize, source) }),
    ...(blocks && { usableBlocks: fact(blocks - 1, source) }),
    ...(ranks > 0 && { dpRanks: fact(ranks, '/metrics engine labels') }),
    ...(labels?.['enable_prefix_caching'] && {
      hasPrefixCache: fact(labels['enable_prefix_caching'] === 'True', source),
    }),
    ...(text !== '' && { isEagle: fact(hasSpeculation(samples), '/metrics vllm:spec_decode_*') }),
    ...(started && { incarnation: fact(String(started.value), '/metrics process_start_time_seconds') }),
  }
}

function blocksPerRank(
  labels: MetricSample['labels'] | undefined,
  blockSize: number | undefined,
  ranks: number,
): number | undefined {
  const tokens = positive(labels?.['kv_cache_size_tokens'])
  if (tokens && blockSize) return Math.floor(tokens / blockSize)
  const all = positive(labels?.['num_gpu_blocks'])
  return all && Math.floor(all / Math.max(1, ranks))
}

/** The method shows in development mode only; of any other speculation we assume that it gives a block up. */
function hasSpeculation(samples: readonly MetricSample[]): boolean {
  return samples.some((sample) => sample.name.startsWith('vllm:spec_decode_'))
}

function fromDevInfo(config: JsonRecord | undefined, host: string): Omit<EngineFacts, 'kind'> {
  if (!config) return {}
  const source = `${devPath} (dev mode)`
  const scheduler = asRecord(config['scheduler_config'])
  const batchTokens = asCount(scheduler?.['max_num_batched_tokens'])
  const running = asCount(scheduler?.['max_num_seqs'])
  const tokenizer = asText(asRecord(config['model_config'])?.['tokenizer'])
  const events = readSource(0, asRecord(config['kv_events_config']), host)
  const transfer = asRecord(config['kv_transfer_config'])
  const connectorName = asText(transfer?.['kv_connector'])
  const connector = connectorName === undefined ? undefined : connectorNames[connectorName]
  const role = roleNames[String(transfer?.['kv_role'])]
  const method = asText(asRecord(config['speculative_config'])?.['method'])
  return {
    ...(batchTokens && { batchTokensMax: fact(batchTokens, source) }),
    ...(running && { runningRequestsMax: fact(running, source) }),
    ...(tokenizer && { tokenizer: fact(tokenizer, source) }),
    ...(events && { eventSources: fact([events], source) }),
    ...(connector && { connector: fact(connector, source) }),
    ...(connectorName && !connector && { unspokenConnector: fact(connectorName, source) }),
    ...(role && { role: fact(role, source) }),
    ...(method && { isEagle: fact(/eagle|mtp/i.test(method), source) }),
  }
}

/** `kv_both` does both halves, so it says nothing of the one that is meant. */
const roleNames: Readonly<Partial<Record<string, 'prefill' | 'decode'>>> = {
  kv_producer: 'prefill',
  kv_consumer: 'decode',
}

/** Others (P2P NCCL, several at once) are not spoken: a worker that has one joins no pair unless its owner names one of ours. */
const connectorNames: Readonly<Partial<Record<string, Connector>>> = {
  NixlConnector: 'nixl',
  NixlPullConnector: 'nixl',
  NixlPushConnector: 'nixl_push',
  MooncakeConnector: 'mooncake',
  MooncakeStoreConnector: 'shared_cache',
  LMCacheConnectorV1: 'shared_cache',
  LMCacheMPConnector: 'shared_cache',
  OffloadingConnector: 'shared_cache',
}

function positive(text: string | undefined): number | undefined {
  const value = Number(text)
  return Number.isFinite(value) && value > 0 ? value : undefined
}
