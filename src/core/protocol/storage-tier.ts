/** Where a cached block lies. Lower tiers are walked in this order after the device. */
export const storageTiers = ['device', 'host_pinned', 'disk', 'external'] as const

export type StorageTier = (typeof storageTiers)[number]

export const lowerTiers: readonly Exclude<StorageTier, 'device'>[] = ['host_pinned', 'disk', 'external']
