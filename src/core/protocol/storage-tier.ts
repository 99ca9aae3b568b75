/** Where a cached block lies. Lower tiers are walked in this order after the device. */
export const storageTiers = ['device', 'host_pinned', 'disk', 'external'] as const

/**
 * Where a block lies, fastest first.
 *
 * @example
 * import type { StorageTier } from 'warmroute/core'
 *
 * const tiers: StorageTier[] = ['device', 'host_pinned', 'disk', 'external']
 */
export type StorageTier = (typeof storageTiers)[number]

export const lowerTiers: readonly Exclude<StorageTier, 'device'>[] = ['host_pinned', 'disk', 'external']
