/** What the doctor found: one line per question, with the reason and, where there is one, the cure. */

export type Verdict = 'pass' | 'warn' | 'fail'

export interface Finding {
  readonly check: string
  /** Absent: of the whole worker. */
  readonly rank?: number
  readonly verdict: Verdict
  readonly reason: string
  /** A flag of the engine, or what else to do. */
  readonly fix?: string | undefined
}

export interface Examination {
  readonly url: string
  readonly engine: string | undefined
  readonly model: string | undefined
  readonly verdict: Verdict
  readonly findings: readonly Finding[]
}

export function worst(verdicts: Iterable<Verdict>): Verdict {
  let found: Verdict = 'pass'
  for (const verdict of verdicts) {
    if (verdict === 'fail') return 'fail'
    if (verdict === 'warn') found = 'warn'
  }
  return found
}
