/** What an engine says of its cache, before any version's wire form. Hashes are whole digests. */

export type Medium = 'GPU' | 'CPU' | 'CPU_PINNED'

export interface BlocksStored {
  readonly kind: 'stored'
  readonly hashes: readonly Uint8Array[]
  readonly parent: Uint8Array | undefined
  readonly tokens: readonly number[]
  readonly blockTokens: number
  readonly medium: Medium
  readonly loraName?: string | undefined
  readonly loraId?: number | undefined
  readonly salt?: string | undefined
  /** Position of the first block: a salt is shown with block 0 only. */
  readonly firstBlock: number
  readonly sessionId?: string | undefined
}

export interface BlocksRemoved {
  readonly kind: 'removed'
  readonly hashes: readonly Uint8Array[]
  readonly medium: Medium
}

export type KvEvent = BlocksStored | BlocksRemoved | { readonly kind: 'cleared' }
