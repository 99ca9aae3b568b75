/** Whether a worker may be half of a pair at all: by what is known of its connector, never by a guess. */
import { WarmrouteError } from '../../core/protocol/index.js'
import { connectorOf } from '../../engines/index.js'
import type { WorkerSpec } from '../options.js'

/** Throws `WR_INVALID_CONFIG`. */
export function requireJoinable(spec: WorkerSpec): void {
  const { id, role, transfer } = spec
  if (role !== 'prefill' && role !== 'decode') return
  if (transfer?.unspoken !== undefined)
    throw new WarmrouteError('WR_INVALID_CONFIG', {
      reason: `${role} worker ${id} hands KV on by ${transfer.unspoken}, which is not spoken; name a connector that is, or make it aggregated`,
    })
  if (role === 'prefill') requireConnector(spec)
}

/** Some connectors find a prefill engine by its id, which nothing on HTTP tells. */
function requireConnector({ id, engine, transfer, config }: WorkerSpec): void {
  const connector = connectorOf(engine, transfer)
  if (connector === undefined)
    throw new WarmrouteError('WR_INVALID_CONFIG', {
      reason: `nothing says how prefill worker ${id} (engine: ${engine}) hands KV on; name its engine or its connector`,
    })
  const ranks = config?.dataParallelSize ?? 1
  if ((connector !== 'mooncake' && connector !== 'nixl_push') || (transfer?.engineIds?.length ?? 0) >= ranks) return
  throw new WarmrouteError('WR_INVALID_CONFIG', {
    reason: `prefill worker ${id} needs engine_ids, one per rank, for the connector ${connector}`,
  })
}
