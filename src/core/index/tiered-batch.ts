/**
 * KV events of many ranks and every tier, on their way into the index. One packed batch per tier keeps the order in
 * which a tier's events came; between tiers there is no order to keep, because their indexes share nothing.
 */
import type { Rank, StorageTier } from '../protocol/index.js'
import { EventBatch } from './event-batch.js'

export class TieredBatch {
  readonly device: EventBatch = new EventBatch()
  readonly hostPinned: EventBatch = new EventBatch(64)
  readonly disk: EventBatch = new EventBatch(64)
  readonly external: EventBatch = new EventBatch(64)

  /** Where stored and removed events of this tier go. Clears go through `cleared`. */
  of(tier: StorageTier): EventBatch {
    switch (tier) {
      case 'device':
        return this.device
      case 'host_pinned':
        return this.hostPinned
      case 'disk':
        return this.disk
      case 'external':
        return this.external
    }
  }

  /** The rank's own cache is empty, on every tier: a clear names no tier. */
  cleared(rank: Rank): void {
    this.device.cleared(rank)
    this.hostPinned.cleared(rank)
    this.disk.cleared(rank)
    this.external.cleared(rank)
  }

  get blockCount(): number {
    return this.device.blockCount + this.hostPinned.blockCount + this.disk.blockCount + this.external.blockCount
  }

  clear(): void {
    this.device.clear()
    this.hostPinned.clear()
    this.disk.clear()
    this.external.clear()
  }
}
