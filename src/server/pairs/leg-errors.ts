/** How the failure of one half of a request is told: which half, on which worker, and why. */
import { WarmrouteError } from '../../core/protocol/index.js'

export function prefillFailure(reason: string, workerId: bigint | undefined, cause?: WarmrouteError): WarmrouteError {
  const where = workerId === undefined ? 'prefill leg' : `prefill leg on worker ${workerId}`
  const details = { reason: `${where}: ${reason}`, leg: 'prefill', cause: cause?.code }
  return new WarmrouteError('WR_PREFILL_FAILED', details, cause === undefined ? undefined : { cause })
}

/** The decode's own error, with the leg in its reason. Errors that are nobody's leg stay as they are. */
export function namingDecode(error: WarmrouteError): WarmrouteError {
  if (error.details['leg'] !== undefined || !error.code.startsWith('WR_ENGINE_')) return error
  const reason = `decode leg: ${reasonOf(error)}`
  return new WarmrouteError(error.code, { ...error.details, reason, leg: 'decode' }, { cause: error })
}

export function reasonOf({ details, message }: WarmrouteError): string {
  return typeof details['reason'] === 'string' ? details['reason'] : message
}

/** The prefill stage is full: others wait there too, and passing it on would only move the queue. */
export function isBackPressure({ code }: WarmrouteError): boolean {
  return backPressure.has(code)
}

const backPressure: ReadonlySet<string> = new Set([
  'WR_ALL_WORKERS_OVERLOADED',
  'WR_QUEUE_REJECTED',
  'WR_ROUTER_CLOSED',
  'WR_SHUTTING_DOWN',
  'WR_TRACKER_FULL',
])

export function cancelled(): WarmrouteError {
  return new WarmrouteError('WR_REQUEST_CANCELLED', {})
}
