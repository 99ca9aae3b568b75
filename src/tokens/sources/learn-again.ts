/** Asks an engine once more what its texts are made of, later and later, while its failing to say so may pass. */
import { setTimeout as pause } from 'node:timers/promises'

export interface LearnAgainOptions {
  /** Until the first, in milliseconds; each wait is twice the one before. */
  readonly firstMs?: number
  readonly waitMaxMs?: number
  readonly triesMax?: number
}

/** `learn` answers whether asking again may help. Never rejects; ends when the signal aborts. */
export async function learnAgain(
  learn: () => Promise<boolean>,
  signal: AbortSignal,
  options: LearnAgainOptions = {},
): Promise<void> {
  const { firstMs = 1000, waitMaxMs = 60_000, triesMax = 20 } = options // 15 minutes in all
  for (let tries = 0; tries < triesMax; tries++) {
    try {
      await pause(Math.min(waitMaxMs, firstMs * 2 ** tries), undefined, { signal, ref: false })
    } catch {
      return
    }
    if (!(await learn())) return
  }
}
