/**
 * Which engine answers at an address, and everything it says about itself. `GET /kv_event_sources` is asked first: where it
 * exists it names the engine and all its event ports at once. After that the owner in `/v1/models` decides; the 404 body
 * tells nothing any more (vLLM 0.32 and SGLang 0.5.23 answer alike).
 */
import type { EngineFacts, EngineKind, Fact } from './engine-facts.js'
import { fact } from './engine-facts.js'
import type { JsonRecord } from './json.js'
import { asList, asRecord, asText, parseRecord } from './json.js'
import type { Probe } from './probe.js'
import { sglangFacts } from './sglang/facts.js'
import { trtllmFacts } from './trtllm/facts.js'
import { fromModels, vllmFacts } from './vllm/facts.js'

const kindOfOwner: Readonly<Record<string, EngineKind>> = {
  vllm: 'vllm',
  'vllm-frontend-rs': 'vllm',
  sglang: 'sglang',
  tensorrt_llm: 'trtllm',
  llamacpp: 'llamacpp',
  lmdeploy: 'lmdeploy',
  library: 'ollama',
}

/** Never throws; an address where nothing answers is `unknown` with no other fact. */
export async function detectEngine(probe: Probe): Promise<EngineFacts> {
  const sources = await okRecord(probe, '/kv_event_sources')
  const models = await okRecord(probe, '/v1/models')
  const kind = kindOf(sources, models) ?? (await kindOfRest(probe))
  if (kind.value === 'vllm') return { kind, ...(await vllmFacts(probe, models)) }
  const common = { kind, ...fromModels(models) }
  if (kind.value === 'sglang') return { ...common, ...(await sglangFacts(probe)) }
  if (kind.value === 'trtllm') return { ...common, ...(await trtllmFacts(probe)) }
  return common
}

function kindOf(sources: JsonRecord | undefined, models: JsonRecord | undefined): Fact<EngineKind> | undefined {
  const looksLikeSources =
    sources && Object.values(sources).every((it) => asRecord(it)?.['enable_kv_cache_events'] !== undefined)
  if (looksLikeSources && Object.keys(sources).length > 0) return fact('vllm', '/kv_event_sources')
  const owner = asText(asRecord(asList(models?.['data'])[0])?.['owned_by'])
  const kind = owner === undefined ? undefined : kindOfOwner[owner]
  return kind && fact(kind, `/v1/models owned_by ${owner}`)
}

/** No owner that we know: a few routes only one engine has. */
async function kindOfRest(probe: Probe): Promise<Fact<EngineKind>> {
  const home = await probe.get('/')
  if (home?.text.includes('SGLang is running')) return fact('sglang', '/')
  if (home?.text.includes('Ollama is running')) return fact('ollama', '/')
  const info = await okRecord(probe, '/server_info')
  if (info && 'page_size' in info) return fact('sglang', '/server_info page_size')
  if (info && ('disaggregated_params' in info || 'tokens_per_block' in info)) return fact('trtllm', '/server_info')
  const metrics = await probe.get('/metrics')
  if (metrics?.status === 200 && metrics.text.includes('\nvllm:')) return fact('vllm', '/metrics')
  const tgi = await okRecord(probe, '/info')
  if (tgi && 'model_id' in tgi) return fact('tgi', '/info')
  return fact('unknown', 'nothing it answered is known')
}

async function okRecord(probe: Probe, path: string): Promise<JsonRecord | undefined> {
  const reply = await probe.get(path)
  return reply?.status === 200 ? parseRecord(reply.text) : undefined
}
