/**
 * One record of 128 bytes per rank, at a fixed place.
 *
 *   [ count 4 | buckets 4 | pages 4 | page count 4 ]        the bucket table
 *   [ buckets 4 | pages 4 | page count 4 | frontier 4 ]     the table it is moving to; buckets below frontier have moved
 *   [ grow above 4 | shrink below 4 ] [ alias count 4 | by external 4 | by node 4 | mask 4 ] [ oldest age 4 ]
 */
import { RANK_BYTES, RANKS } from './memory'

let used: u32 = 0

export function recordOf(rank: u32): usize {
  if (rank >= used) used = rank + 1
  return RANKS + rank * RANK_BYTES
}
export function ranksUsed(): u32 {
  return used
}

@inline export function countOf(rank: usize): u32 {
  return load<u32>(rank)
}
@inline export function setCount(rank: usize, count: u32): void {
  store<u32>(rank, count)
}
@inline export function bucketsOf(rank: usize): u32 {
  return load<u32>(rank, 4)
}
@inline export function pagesOf(rank: usize): usize {
  return load<u32>(rank, 8)
}
@inline export function pageCountOf(rank: usize): u32 {
  return load<u32>(rank, 12)
}
@inline export function setTable(rank: usize, buckets: u32, pages: usize, pageCount: u32): void {
  store<u32>(rank, buckets, 4)
  store<u32>(rank, <u32>pages, 8)
  store<u32>(rank, pageCount, 12)
}
@inline export function nextBucketsOf(rank: usize): u32 {
  return load<u32>(rank, 16)
}
@inline export function nextPagesOf(rank: usize): usize {
  return load<u32>(rank, 20)
}
@inline export function nextPageCountOf(rank: usize): u32 {
  return load<u32>(rank, 24)
}
@inline export function setNextTable(rank: usize, buckets: u32, pages: usize, pageCount: u32): void {
  store<u32>(rank, buckets, 16)
  store<u32>(rank, <u32>pages, 20)
  store<u32>(rank, pageCount, 24)
}
@inline export function frontierOf(rank: usize): u32 {
  return load<u32>(rank, 28)
}
@inline export function setFrontier(rank: usize, bucket: u32): void {
  store<u32>(rank, bucket, 28)
}
@inline export function growAboveOf(rank: usize): u32 {
  return load<u32>(rank, 32)
}
@inline export function shrinkBelowOf(rank: usize): u32 {
  return load<u32>(rank, 36)
}
@inline export function setLimits(rank: usize, growAbove: u32, shrinkBelow: u32): void {
  store<u32>(rank, growAbove, 32)
  store<u32>(rank, shrinkBelow, 36)
}
@inline export function aliasCountOf(rank: usize): u32 {
  return load<u32>(rank, 40)
}
@inline export function setAliasCount(rank: usize, count: u32): void {
  store<u32>(rank, count, 40)
}
@inline export function byExternalOf(rank: usize): usize {
  return load<u32>(rank, 44)
}
@inline export function byNodeOf(rank: usize): usize {
  return load<u32>(rank, 48)
}
@inline export function maskOf(rank: usize): u32 {
  return load<u32>(rank, 52)
}
@inline export function setAliasTables(rank: usize, external: usize, node: usize, mask: u32): void {
  store<u32>(rank, <u32>external, 44)
  store<u32>(rank, <u32>node, 48)
  store<u32>(rank, mask, 52)
}
@inline export function oldestOf(rank: usize): u32 {
  return load<u32>(rank, 56)
}
@inline export function setOldest(rank: usize, epoch: u32): void {
  store<u32>(rank, epoch, 56)
}
/** Everything that the rank holds, by name. */
@inline export function heldOf(rank: usize): u32 {
  return load<u32>(rank) + load<u32>(rank, 40)
}
