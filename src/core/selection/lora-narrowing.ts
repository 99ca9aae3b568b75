/** Sends a LoRA request to workers that are known to serve its adapter, without ever widening what was allowed. */

export interface LoraNarrowing {
  readonly allowedWorkerIds: ReadonlySet<bigint> | undefined
  /** Workers that are known to have the adapter; undefined or empty: nobody knows. */
  readonly loraWorkerIds: ReadonlySet<bigint> | undefined
  /** A pin is an order: what it may use is not narrowed. */
  readonly isPinned: boolean
}

/** The allow list to select from. Where nobody allowed has the adapter, the list stays as it was. */
export function narrowToLora({
  allowedWorkerIds,
  loraWorkerIds,
  isPinned,
}: LoraNarrowing): ReadonlySet<bigint> | undefined {
  if (isPinned || !loraWorkerIds || loraWorkerIds.size === 0) return allowedWorkerIds
  if (!allowedWorkerIds) return loraWorkerIds
  const both = new Set([...loraWorkerIds].filter((workerId) => allowedWorkerIds.has(workerId)))
  return both.size > 0 ? both : allowedWorkerIds
}
