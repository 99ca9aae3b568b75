/** Why a request that could have been split was not; the label of a metric and the value of a header. */
export const skipReasons = [
  'not_activated',
  'deactivated',
  'disabled',
  /** The route carries no transfer. */
  'route',
  /** Several sequences would read, and release, the same KV. */
  'sequences',
  /** Only who computes a prompt knows its log probabilities. */
  'prompt_logprobs',
  /** The request names a worker that does both halves. */
  'pinned',
  'no_decode_worker',
  'mostly_cached',
  'prefill_busy',
  'prefill_failed',
  /** The prefill worker holds nothing for a reader. */
  'no_params',
] as const

export type SkipReason = (typeof skipReasons)[number]
