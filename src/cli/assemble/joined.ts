/** A worker that answered: what it said, what an admin said of it, and what follows for the gateway. Pure. */
import type { ConditionalSettings } from '../../core/prefill/index.js'
import { WarmrouteError } from '../../core/protocol/index.js'
import type { RouterConfig, WorkerConfig } from '../../core/protocol/index.js'
import type { EngineFacts, EventSourceFact, TransferFacts } from '../../engines/index.js'
import { connectorOf, leaseMsOf, namesPairs } from '../../engines/index.js'
import type { AddedWorker, WorkerRole, WorkerSpec } from '../../server/index.js'
import { roleOfLabels } from '../../server/index.js'
import type { Judged } from './judge-joined.js'
import type { ModelRuntime } from './model-runtime.js'
import type { WorkerKeeper } from './worker-keeper.js'
import type { ModeVerdict } from './worker-mode.js'

export interface Joined {
  readonly keeper: WorkerKeeper
  readonly runtime: ModelRuntime
  readonly role: WorkerRole
  facts: EngineFacts
  /** Beats what the engine says of itself. */
  readonly added: AddedWorker | undefined
  /** Event sockets that were found, of an engine that does not say where they are. */
  found: readonly EventSourceFact[]
  verdict: ModeVerdict
  /** What the verdict was made of. */
  judged: Judged | undefined
  batches: number
  /** Its tokens are still being looked for: what is not known of it is no fault. */
  isJoining: boolean
}

export const starting: ModeVerdict = { mode: 'approximate', reason: 'it has just joined', fix: undefined }

export function nameOf(facts: EngineFacts): string {
  return facts.models!.value[0]!.name
}

/** What its owner says beats its labels, and those beat what the engine says. */
export function roleOf({ address }: WorkerKeeper, facts: EngineFacts): WorkerRole {
  return address.role ?? roleOfLabels(address.labels) ?? facts.role?.value ?? 'aggregated'
}

export function transferOf({ address }: WorkerKeeper, facts: EngineFacts): TransferFacts {
  const said = address.transfer
  const connector = said?.connector ?? facts.connector?.value
  const known = connectorOf(facts.kind.value, { connector })
  return {
    ...said,
    connector,
    unspoken: connector === undefined ? facts.unspokenConnector?.value : undefined,
    port: said?.port ?? facts.bootstrapPort?.value,
    leaseMs: said?.leaseMs ?? (known && leaseMsOf(known, facts.version?.value)),
  }
}

export function conditionalOf(config: RouterConfig): ConditionalSettings {
  return {
    policy: config.conditionalDisaggPolicy,
    effIslThreshold: config.conditionalDisaggEffIslThreshold,
    effIslRatioThreshold: config.conditionalDisaggEffIslRatioThreshold,
    prefillBusyThreshold: config.conditionalDisaggPrefillBusyThreshold,
    routerQueueThreshold: config.routerQueueThreshold,
    decodeBusyThreshold: config.conditionalDisaggDecodeBusyThreshold,
  }
}

/** Under a name that the engine does not know, its own names are not this model's: another may have them here. */
export function aliasesOf(facts: EngineFacts, name: string): readonly string[] {
  const names = facts.models!.value.map((model) => model.name)
  return names.includes(name) ? names.filter((it) => it !== name) : []
}

export function specOf({ keeper, facts, verdict, role, added, runtime }: Joined): WorkerSpec {
  const { url, apiKey, taints, ...places } = keeper.address
  const config: WorkerConfig = {
    dataParallelStartRank: 0,
    dataParallelSize: facts.dpRanks?.value ?? 1,
    totalKvBlocks: facts.usableBlocks?.value,
    maxNumBatchedTokens: facts.batchTokensMax?.value,
    taints: taints && new Set(taints),
    topologyDomains: places.topologyDomains,
    kvTransferDomain: places.kvTransferDomain,
    kvTransferEnforcement: places.kvTransferEnforcement,
    kvTransferPreferredWeight: places.kvTransferPreferredWeight,
    ...added?.stated,
  }
  const said = added?.spec.engine
  return {
    ...added?.spec,
    id: keeper.id,
    url,
    apiKey,
    engine: said === undefined || said === 'unknown' ? facts.kind.value : said,
    config,
    maxNumSeqs: facts.runningRequestsMax?.value,
    mode: verdict.mode,
    role,
    transfer: transferOf(keeper, facts),
    givesBlockUp: facts.kind.value === 'vllm' && facts.isEagle?.value === true,
    blockSize: added?.spec.blockSize ?? facts.blockSize?.value,
    generates: facts.generates?.value,
    aliases: aliasesOf(facts, runtime.name),
    adapters: facts.adapters?.value.map((adapter) => adapter.name),
  }
}

/** Equal texts: the gateway would be told nothing new. */
export function specText(joined: Joined): string {
  return JSON.stringify(specOf(joined), (_, value: unknown) => {
    if (typeof value === 'bigint') return String(value)
    return value instanceof Set ? [...(value as Set<unknown>)] : value
  })
}

export function servesAsSaid(facts: EngineFacts, { model, spec }: AddedWorker): boolean {
  return facts.models?.value.some(({ name }) => name === (spec.servedModel ?? model)) ?? false
}

/** A model is made for what an engine serves, not for what was said of it. */
export function requireServed(facts: EngineFacts, added: AddedWorker): void {
  if (servesAsSaid(facts, added)) return
  const served = facts.models!.value.map(({ name }) => name).join(', ')
  throw new WarmrouteError('WR_INVALID_CONFIG', {
    reason: `it serves ${served} and not ${added.spec.servedModel ?? added.model}`,
  })
}

/** What the operator names beats what the engine says, and that beats what was found. */
export function sourcesOf(
  { keeper: { address }, found }: Pick<Joined, 'keeper' | 'found'>,
  facts: EngineFacts,
): readonly EventSourceFact[] {
  const { events: endpoint, replay: replayEndpoint } = address
  if (endpoint === undefined) return facts.eventSources?.value ?? found
  return Array.from({ length: facts.dpRanks?.value ?? 1 }, (_, dpRank) => ({
    dpRank,
    endpoint: portOfRank(endpoint, dpRank),
    replayEndpoint: replayEndpoint && portOfRank(replayEndpoint, dpRank),
    topic: '',
    bufferSteps: undefined,
  }))
}

/** Engines bind one port per rank, counted up from the one that they are given. */
function portOfRank(endpoint: string, dpRank: number): string {
  return endpoint.replace(/:(\d+)$/, (_, port: string) => `:${Number(port) + dpRank}`)
}

export function sourcesText(joined: Joined, facts: EngineFacts): string {
  return JSON.stringify(sourcesOf(joined, facts))
}

export function isOtherShape(facts: EngineFacts, before: EngineFacts): boolean {
  return (
    facts.kind.value !== before.kind.value ||
    namesPairs(facts) !== namesPairs(before) ||
    facts.dpRanks?.value !== before.dpRanks?.value ||
    facts.blockSize?.value !== before.blockSize?.value ||
    facts.role?.value !== before.role?.value ||
    facts.connector?.value !== before.connector?.value ||
    facts.unspokenConnector?.value !== before.unspokenConnector?.value
  )
}

export function dialectOf(facts: EngineFacts): 'vllm' | 'sglang' | 'trtllm' | undefined {
  const { value } = facts.kind
  return value === 'vllm' || value === 'sglang' || value === 'trtllm' ? value : undefined
}
