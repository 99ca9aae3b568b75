/** What a line of a trace may hold, and how one is refused. */
import { WarmrouteError } from '../../core/protocol/index.js'

export type Fields = Readonly<Record<string, unknown>>

export function refuse(line: number, reason: string, cause?: unknown): never {
  throw new WarmrouteError('WR_INVALID_ARGUMENT', { reason: `trace line ${line} ${reason}`, line }, { cause })
}

export function isCount(value: unknown): value is number {
  return typeof value === 'number' && Number.isFinite(value) && value >= 0
}

/** Beyond 2^53 neighbours fall together. */
export function isTime(value: unknown): value is number {
  return isCount(value) && value <= Number.MAX_SAFE_INTEGER
}

export function isWhole(value: unknown): value is number {
  return isCount(value) && Number.isInteger(value)
}

/** No model reads a prompt of 2^27 tokens; a number beyond is a typing error, and would fill the memory. */
export function isPromptLength(value: unknown): value is number {
  return isWhole(value) && value > 0 && value <= 2 ** 27
}

/** Ids are compared and nothing else, so the rounding of hashes above 2^53 does no harm. */
export function isIds(value: unknown): value is number[] {
  return Array.isArray(value) && value.every(isCount)
}
