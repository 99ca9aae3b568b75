/** Every failure that a caller may have to handle. A code never changes once released; its sentence may. */

/** One sentence per code, in alphabetical order. `docs/reference/errors.md` says what to do about each. */
export const errorTexts = {
  WR_INVALID_ARGUMENT: 'an argument is outside of what this call accepts',
  WR_INVALID_CONFIG: 'the configuration breaks a rule',
  WR_INVALID_EVENT: 'a KV event cannot be read',
  WR_INVALID_JSON: 'a text is not valid JSON',
  WR_SNAPSHOT_INVALID: 'an index snapshot cannot be used',
} as const

export type ErrorCode = keyof typeof errorTexts

export class WarmrouteError extends Error {
  override readonly name = 'WarmrouteError'
  readonly code: ErrorCode
  /** What a person needs to act: ids, the limit, the value that was refused. */
  readonly details: Readonly<Record<string, unknown>>

  constructor(code: ErrorCode, details: Record<string, unknown> = {}, options?: ErrorOptions) {
    super(sentence(code, details), options)
    this.code = code
    this.details = details
  }
}

/** A rule of our own was broken: a bug. It ends the request or feed it happened in, is counted, and is never caught to carry on. */
export class InvariantError extends Error {
  override readonly name = 'InvariantError'
}

export function invariant(holds: boolean, rule: string): asserts holds {
  if (!holds) throw new InvariantError(rule)
}

/** `details.reason` completes the sentence where the code alone would leave a person guessing. */
function sentence(code: ErrorCode, details: Record<string, unknown>): string {
  const reason = details['reason']
  return typeof reason === 'string' ? `${errorTexts[code]}: ${reason}` : errorTexts[code]
}
