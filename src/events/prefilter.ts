/**
 * Which events may touch the index at all. The order of the checks and the names of the reasons follow
 * lib/llm/src/kv_router/publisher at 1.5.0; events of disk and external tiers pass without touching what is learned here.
 */
import type { DecodedBatch } from './decoded-batch.js'
import { attentionCode, eventKind, localityCode, ownershipCode, tierCode } from './decoded-batch.js'

/** Why an event, or a part of it, did not reach the index. Stable: they are metric labels. */
export const filterReasons = [
  'unsupported_ownership',
  'unknown_ownership',
  'ignored_event',
  'non_local_locality',
  'unknown_medium',
  'unknown_kind',
  'non_main_attention_kind',
  'non_main_attention_group',
  'unlearned_group_idx',
  'ambiguous_cache_namespace',
  'masked_group',
  'placeholder',
  'wrong_block_size',
  'short_tokens',
  'duplicate_hash',
  'opaque_media',
  'foreign_rank',
] as const

export type FilterReason = (typeof filterReasons)[number]

/** What stores have taught about the cache groups of one rank: group -> attention code. Removals teach nothing. */
export type LearnedGroups = Map<number, number>

const groupsMax = 1024

export function filterEvent(batch: DecodedBatch, event: number, learned: LearnedGroups): FilterReason | undefined {
  const ownership = batch.ownership[event]!
  if (ownership === ownershipCode.kvcr) return 'unsupported_ownership'
  if (ownership === ownershipCode.unknown) return 'unknown_ownership'
  const kind = batch.kind[event]!
  if (kind === eventKind.ignored) return 'ignored_event'
  if (kind === eventKind.cleared) return undefined
  if (batch.locality[event] !== localityCode.local) return 'non_local_locality'
  const tier = batch.tier[event]!
  if (tier === tierCode.unknown) return 'unknown_medium'
  if (tier >= tierCode.disk) return undefined
  const group = batch.group[event]!
  const attention = batch.attention[event]!
  if (kind === eventKind.stored && group >= 0 && attention !== attentionCode.absent) learn(learned, group, attention)
  return filterAttention(group, attention, learned)
}

function learn(learned: LearnedGroups, group: number, attention: number): void {
  if (learned.size < groupsMax || learned.has(group)) learned.set(group, attention)
}

function filterAttention(group: number, attention: number, learned: LearnedGroups): FilterReason | undefined {
  if (attention === attentionCode.main) return undefined
  if (attention === attentionCode.unknown) return 'unknown_kind'
  if (attention === attentionCode.other) return 'non_main_attention_kind'
  if (group < 0) return undefined
  const known = learned.get(group)
  if (known === attentionCode.main) return undefined
  if (known === attentionCode.unknown) return 'unknown_kind'
  if (known !== undefined) return 'non_main_attention_group'
  return group === 0 ? undefined : 'unlearned_group_idx'
}
