/** What a transfer between two simulated engines means to the generation on either side. */
import type { Choice, Generation, GenerationSpec } from '../generation.js'
import type { Exchange, Json } from './exchange.js'

export interface Transfer {
  /** What it changes of the generation. */
  readonly spec: Partial<GenerationSpec>
  /** The reply's `kv_transfer_params`, once the generation has ended. */
  params(generation: Generation, choices: readonly Choice[]): Json | null
}

export const none: Transfer = { spec: {}, params: () => null }

/** Aborted when the client leaves before its answer ended. */
export function goneController({ response }: Exchange): AbortController {
  const gone = new AbortController()
  response.once('close', () => {
    if (!response.writableFinished) gone.abort()
  })
  return gone
}
