/**
 * Which half of requests a worker does, by the labels of whoever deployed it. Ours first, then those that llm-d and Dynamo's
 * operator put on their pods; a value that is none of these says nothing, but under our own name it is a mistake.
 */
import { WarmrouteError } from '../../core/protocol/index.js'
import type { WorkerRole } from '../options.js'

export type WorkerLabels = Readonly<Record<string, string>>

export const ownRoleLabel = 'warmroute.dev/role'

const roleLabels = [ownRoleLabel, 'llm-d.ai/role', 'nvidia.com/dynamo-sub-component-type'] as const

/** Undefined: the labels do not say it. Throws `WR_INVALID_CONFIG` for a value under our own name that means nothing. */
export function roleOfLabels(labels: WorkerLabels | undefined): WorkerRole | undefined {
  for (const name of roleLabels) {
    const value = labels?.[name]
    if (value === undefined) continue
    const role = roles[value]
    if (role) return role
    if (name === ownRoleLabel)
      throw new WarmrouteError('WR_INVALID_CONFIG', {
        reason: `the label ${name} must be one of ${Object.keys(roles).join(', ')}, not ${JSON.stringify(value)}`,
      })
  }
  return undefined
}

const roles: Readonly<Partial<Record<string, WorkerRole>>> = {
  prefill: 'prefill',
  decode: 'decode',
  aggregated: 'aggregated',
  both: 'aggregated',
  'prefill-decode': 'aggregated',
}
