/** Where each fact of an SGLang server lives: most of it in `/server_info`, which also holds secrets and is never logged. */
import type { EngineFacts, EventSourceFact } from '../engine-facts.js'
import { fact, reachableEndpoint } from '../engine-facts.js'
import type { JsonRecord } from '../json.js'
import { asCount, asPort, asRecord, asText, parseRecord } from '../json.js'
import type { Probe } from '../probe.js'
import { otherTemplatesOf } from './other-templates.js'

const source = '/server_info'
/** Draft models of these families make the cache hash pairs of tokens. */
const bigramAlgorithms = new Set(['EAGLE', 'EAGLE3', 'FROZEN_KV_MTP'])

export async function sglangFacts(probe: Probe): Promise<Omit<EngineFacts, 'kind'>> {
  const reply = (await okText(probe, '/server_info')) ?? (await okText(probe, '/get_server_info'))
  const info = parseRecord(reply)
  return { ...(info && factsOf(info, probe.host)), ...(await taskFact(probe)) }
}

/** What a running SGLang says that another process would not; undefined where it does not say when it started. */
export function sglangWitness(serverInfo: string, host: string): string | undefined {
  const info = parseRecord(serverInfo)
  const facts = info && factsOf(info, host)
  return facts?.incarnation && JSON.stringify(facts)
}

async function taskFact(probe: Probe): Promise<Pick<EngineFacts, 'generates'>> {
  const reply = (await okText(probe, '/model_info')) ?? (await okText(probe, '/get_model_info'))
  const generates = parseRecord(reply)?.['is_generation']
  return typeof generates === 'boolean' ? { generates: fact(generates, '/model_info is_generation') } : {}
}

async function okText(probe: Probe, path: string): Promise<string | undefined> {
  const reply = await probe.get(path)
  return reply?.status === 200 ? reply.text : undefined
}

function factsOf(info: JsonRecord, host: string): Omit<EngineFacts, 'kind'> {
  const version = asText(info['version'])
  const pageSize = asCount(info['page_size'])
  const capacity = asCount(info['max_total_num_tokens'])
  const ranks = asCount(info['dp_size'])
  const tokenizer = asText(info['tokenizer_path'])
  const batchTokens = asCount(info['chunked_prefill_size']) ?? asCount(info['max_prefill_tokens'])
  const running = asCount(info['max_running_requests'])
  const role = info['disaggregation_mode']
  const bootstrapPort = asPort(info['disaggregation_bootstrap_port'])
  const events = eventSources(info, host)
  return {
    ...(version && { version: fact(version, source) }),
    ...(pageSize && { blockSize: fact(pageSize, `${source} page_size`) }),
    ...(pageSize &&
      capacity && { usableBlocks: fact(Math.floor(capacity / pageSize), `${source} max_total_num_tokens`) }),
    ...(ranks && { dpRanks: fact(ranks, `${source} dp_size`) }),
    ...(tokenizer && { tokenizer: fact(tokenizer, `${source} tokenizer_path`) }),
    ...(typeof info['disable_radix_cache'] === 'boolean' && {
      hasPrefixCache: fact(!info['disable_radix_cache'], `${source} disable_radix_cache`),
    }),
    ...(info['reasoning_parser'] !== undefined && {
      reasoningParser: fact(asText(info['reasoning_parser']) ?? null, `${source} reasoning_parser`),
    }),
    otherTemplates: fact(otherTemplatesOf(info), source),
    ...mediaOf(info),
    isEagle: fact(bigramAlgorithms.has(String(info['speculative_algorithm'])), `${source} speculative_algorithm`),
    ...(batchTokens && { batchTokensMax: fact(batchTokens, source) }),
    ...(running && { runningRequestsMax: fact(running, source) }),
    ...((role === 'prefill' || role === 'decode') && { role: fact(role, `${source} disaggregation_mode`) }),
    ...(role === 'prefill' &&
      bootstrapPort && { bootstrapPort: fact(bootstrapPort, `${source} disaggregation_bootstrap_port`) }),
    ...(events && { eventSources: events }),
    ...(info['startup_time'] !== undefined && {
      incarnation: fact(JSON.stringify(info['startup_time']), `${source} startup_time`),
    }),
  }
}

/** `kv_events` since v0.5.13; before it the launch argument itself. Ports are bases: rank r is at base + r. */
function eventSources(info: JsonRecord, host: string): EngineFacts['eventSources'] {
  const ranks = asCount(info['dp_size']) ?? 1
  const events = asRecord(info['kv_events'])
  if (events) {
    if (events['publisher'] !== 'zmq') return fact([], `${source} kv_events`)
    const base = asCount(events['endpoint_port_base'])
    if (base === undefined) return undefined
    const replayBase = asCount(events['replay_endpoint_port_base'])
    const at = (port: number) => reachableEndpoint(`tcp://${asText(events['endpoint_host']) ?? '*'}:${port}`, host)
    const found = Array.from({ length: asCount(events['dp_size']) ?? ranks }, (_, dpRank): EventSourceFact => {
      const replayEndpoint = replayBase === undefined ? undefined : at(replayBase + dpRank)
      const topic = asText(events['topic']) ?? ''
      return { dpRank, endpoint: at(base + dpRank), replayEndpoint, topic, bufferSteps: undefined }
    })
    return fact(withReplayOfLaunch(found, info, host), `${source} kv_events`)
  }
  if (!('kv_events_config' in info)) return undefined
  const config = launchConfig(info)
  if (config?.['publisher'] !== 'zmq') return fact([], `${source} kv_events_config`)
  const endpoint = asText(config['endpoint']) ?? 'tcp://*:5557'
  const found = Array.from({ length: ranks }, (_, dpRank): EventSourceFact => {
    const topic = asText(config['topic']) ?? ''
    const replay = asText(config['replay_endpoint'])
    return {
      dpRank,
      endpoint: reachableEndpoint(offsetPort(endpoint, dpRank), host),
      replayEndpoint: replay && reachableEndpoint(offsetPort(replay, dpRank), host),
      topic,
      bufferSteps: asCount(config['buffer_steps']),
    }
  })
  return fact(found, `${source} kv_events_config`)
}

/** Versions between do not repeat the replay port in `kv_events`; the launch argument still has it. */
function withReplayOfLaunch(found: readonly EventSourceFact[], info: JsonRecord, host: string): EventSourceFact[] {
  const config = launchConfig(info)
  const replay = asText(config?.['replay_endpoint'])
  return found.map((it) => ({
    ...it,
    replayEndpoint: it.replayEndpoint ?? (replay && reachableEndpoint(offsetPort(replay, it.dpRank), host)),
    bufferSteps: asCount(config?.['buffer_steps']),
  }))
}

function launchConfig(info: JsonRecord): JsonRecord | undefined {
  const text = asText(info['kv_events_config'])
  return text === undefined ? asRecord(info['kv_events_config']) : parseRecord(text)
}

function offsetPort(endpoint: string, rank: number): string {
  return endpoint.replace(/:(\d+)$/, (_, port: string) => `:${Number(port) + rank}`)
}

/** The language model alone takes none, whatever else was said. */
function mediaOf(info: JsonRecord): Pick<EngineFacts, 'takesMedia'> {
  if (info['language_model_only'] === true) return { takesMedia: fact(false, `${source} language_model_only`) }
  const told = info['enable_multimodal']
  return typeof told === 'boolean' ? { takesMedia: fact(told, `${source} enable_multimodal`) } : {}
}
