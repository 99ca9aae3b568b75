/** Numbers of flags, judged while they are read. */
import { InvalidArgumentError } from 'commander'

/** 0, 1, 2, .. */
export function whole(text: string): number {
  const value = Number(text)
  if (!Number.isInteger(value) || value < 0) throw new InvalidArgumentError('not a whole number')
  return value
}

/** 1, 2, 3, .. */
export function count(text: string): number {
  if (whole(text) === 0) throw new InvalidArgumentError('must be at least 1')
  return Number(text)
}

/** Beyond 2^32 seeds that differ may draw the same. */
export function seed(text: string): number {
  if (whole(text) >= 2 ** 32) throw new InvalidArgumentError('must be below 4294967296')
  return Number(text)
}

export function port(text: string): number {
  if (whole(text) > 65_535) throw new InvalidArgumentError('not a port')
  return Number(text)
}

export function positive(text: string): number {
  const value = Number(text)
  if (!(value > 0) || !Number.isFinite(value)) throw new InvalidArgumentError('must be above 0')
  return value
}

export function zeroOrMore(text: string): number {
  const value = Number(text)
  if (text.trim() === '' || !(value >= 0) || !Number.isFinite(value))
    throw new InvalidArgumentError('must be 0 or more')
  return value
}
