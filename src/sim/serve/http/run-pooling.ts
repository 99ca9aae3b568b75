/** Prompts that are read and not answered: each takes its place in a pass, fills blocks, and ends when it was read. */
import type { Exchange } from './exchange.js'
import { runGeneration } from './run-generation.js'

export function runPooling(
  exchange: Exchange,
  rank: number,
  prompts: readonly (readonly number[])[],
  end: () => void,
): void {
  // The one token that a pass yields at the end of a prompt is where a real engine pools.
  const spec = { prompts, choices: 1, outputTokensMax: 1, stop: [], isEosIgnored: true, draw: 0 }
  runGeneration(exchange, rank, spec, { token() {}, end })
}
