/** The guard of one request: what is booked for it, and what must happen when it ends. */
import type { GuardHooks } from '../../routing/index.js'
import { RequestGuard } from '../../routing/index.js'
import type { GatewayContext } from '../context.js'
import type { Prepared } from './prepare.js'
import type { PromptTokens } from './prompt.js'

export interface GuardOptions {
  readonly requestId: string
  readonly startedAtMs: number
  readonly closeSession: () => void
}

export function guardOf(
  { now }: GatewayContext,
  { model, hints, bytes, isStream }: Prepared,
  prompt: PromptTokens | undefined,
  { requestId, startedAtMs, closeSession }: GuardOptions,
): RequestGuard {
  const { router, blockSize, tracksOutputBlocks } = model.spec
  const hooks = model.looksAtPrompts ? model.guardHooks : noHooks
  return new RequestGuard(
    router,
    {
      requestId,
      isTracked: true,
      promptTokens: prompt?.tokens.length ?? Math.ceil(bytes.length / 4),
      blockSize,
      tracksOutput: tracksOutputBlocks ?? false,
      expectedOutputTokens: hints.expectedOutputTokens,
      isWhole: !isStream,
      startedAtMs,
    },
    hints.sessionControl ? { ...hooks, closeSession } : hooks,
    now,
  )
}

const noHooks: GuardHooks = {}
