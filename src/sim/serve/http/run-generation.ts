/** Ties a generation to its client: latencies are measured, and a client that leaves takes its requests with it. */
import type { Choice, Generation, GenerationSink, GenerationSpec } from '../generation.js'
import { startGeneration } from '../generation.js'
import type { Exchange } from './exchange.js'

export function runGeneration(
  exchange: Exchange,
  rank: number,
  spec: GenerationSpec,
  sink: GenerationSink,
  whenLeft: 'ends with its client' | 'outlives its client' = 'ends with its client',
): Generation {
  const { id } = spec
  const { server, response } = exchange
  const { tokenizer } = server.options
  const startedMs = server.clock.now()
  const lastMs = new Map<number, number>()
  let isOver = false
  server.requests++
  server.inFlight++
  const over = (): void => {
    if (isOver) return
    isOver = true
    if (id !== undefined && server.live.get(id) === generation) server.live.delete(id)
    server.inFlight = Math.max(0, server.inFlight - 1)
  }
  const generation = startGeneration(server.ranks[rank]!, tokenizer, spec, {
    token(choice, token, text) {
      const now = server.clock.now()
      const before = lastMs.get(choice.index)
      if (before === undefined) server.latencies.ttft.observe((now - startedMs) / 1000)
      else server.latencies.itl.observe((now - before) / 1000)
      lastMs.set(choice.index, now)
      sink.token(choice, token, text)
    },
    end(choices: readonly Choice[]) {
      over()
      server.latencies.e2e.observe((server.clock.now() - startedMs) / 1000)
      // Its blocks may wait for a reader, whoever hears of it.
      if (!response.destroyed || spec.keepsBlocks || whenLeft === 'outlives its client') sink.end(choices)
    },
  })
  if (id !== undefined) server.live.set(id, generation)
  // Not at once: who asked for it does not have it yet, and its end speaks of it.
  if (server.faults.strike('abort_streams')) queueMicrotask(() => generation.abort())
  const left = (): void => {
    if (isOver) return
    over()
    generation.abort()
  }
  if (whenLeft === 'outlives its client') return generation
  if (response.destroyed)
    left() // while its prompt was read
  else response.on('close', left)
  return generation
}
