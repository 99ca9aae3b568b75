/** SGLang's disaggregated legs: the bootstrap fields of a body, and what they make of a request. */
import { awaitPrefill } from '../bootstrap.js'
import type { Generation, GenerationSink, GenerationSpec } from '../generation.js'
import { numberOf, textOf } from './body.js'
import type { Exchange, Json } from './exchange.js'
import { Refusal, sendJson } from './exchange.js'
import { runGeneration } from './run-generation.js'
import { sglangError, sglangRank, sglangRefusal } from './sglang-errors.js'

export interface PairLeg {
  readonly rank: number
  readonly spec: Partial<GenerationSpec>
  /** Watches over the generation of a prefill leg: when the other leg leaves, it ends. */
  started(generation: Generation): void
  /** Awaited before the reply goes out: a prefill leg answers once its KV is across. */
  finished(): Promise<void>
}

/** A health check of SGLang's own: no transfer is made. */
const fakeHost = '2.2.2.2'

/** Picks the rank and, on a server that is half of a pair, meets the other half. */
export async function preparePair(exchange: Exchange, body: Json, pinned: string | undefined): Promise<PairLeg> {
  const { server } = exchange
  const kind = server.options.pair?.kind
  const room = numberOf(body, 'bootstrap_room')
  const isPlain = kind === undefined || kind === 'nixl' || textOf(body, 'bootstrap_host') === fakeHost
  if (isPlain)
    return { rank: sglangRank(server, body, pinned), spec: {}, started() {}, finished: () => Promise.resolve() }
  if (room === undefined || !Number.isSafeInteger(room) || room < 0)
    throw sglangRefusal('Disaggregated request received without bootstrap room id.')
  return kind === 'prefill' ? prefillLeg(exchange, body, pinned, room) : decodeLeg(exchange, body, pinned, room)
}

/** Runs a generation on a leg's rank; the reply waits for the leg, and a leg that fails is the reply. */
export function runLeg(exchange: Exchange, leg: PairLeg, spec: GenerationSpec, sink: GenerationSink): void {
  const generation = runGeneration(
    exchange,
    leg.rank,
    { ...spec, ...leg.spec },
    {
      token: (choice, token, text) => sink.token(choice, token, text),
      end(choices) {
        void leg.finished().then(
          () => sink.end(choices),
          (error: unknown) => {
            if (error instanceof Refusal) sendJson(exchange, error.status, error.body)
          },
        )
      },
    },
  )
  leg.started(generation)
}

async function prefillLeg(exchange: Exchange, body: Json, pinned: string | undefined, room: number): Promise<PairLeg> {
  const { server } = exchange
  const bootstrap = server.bootstrap!
  const { rendezvousMs, transferMsPerToken } = server.options.pair!
  const rank = room % server.ranks.length
  const isPinned =
    pinned !== undefined || body['routed_dp_rank'] !== undefined || body['data_parallel_rank'] !== undefined
  const asked = isPinned ? sglangRank(server, body, pinned) : rank
  if (asked !== rank && body['disagg_prefill_dp_rank'] === undefined) {
    bootstrap.fail(room, 'follow_bootstrap_room conflict')
    throw broken(`Prefill bootstrap failed: follow_bootstrap_room conflict, room ${room} belongs to rank ${rank}`)
  }
  const gone = goneSignal(exchange)
  let left: Promise<void>
  try {
    left = (await bootstrap.awaitDecode(room, rendezvousMs, gone)).left
  } catch (error) {
    throw broken(`Prefill bootstrap failed for request rank=${rank} room=${room}: ${String(error)}`)
  }
  let isAlone = false
  let tokens = 0
  gone.addEventListener('abort', () => bootstrap.fail(room, 'the prefill side was aborted'), { once: true })
  return {
    rank: asked,
    spec: { outputTokensMax: 1 },
    started(generation) {
      tokens = generation.choices.reduce((sum, { prompt }) => sum + prompt.length, 0)
      void left.then(() => {
        isAlone = true
        generation.abort()
      })
    },
    async finished() {
      const { clock } = server
      await new Promise<void>((resolve) => clock.at(clock.now() + tokens * transferMsPerToken, resolve))
      if (isAlone) throw broken(`Prefill transfer failed for room=${room}: the decode side left`)
      bootstrap.complete(room)
    },
  }
}

async function decodeLeg(exchange: Exchange, body: Json, pinned: string | undefined, room: number): Promise<PairLeg> {
  const { server } = exchange
  const rank = sglangRank(server, body, pinned)
  const host = textOf(body, 'bootstrap_host') ?? ''
  const port = numberOf(body, 'bootstrap_port') ?? 8998
  try {
    await awaitPrefill({ host, port, room }, server.options.pair!.rendezvousMs, goneSignal(exchange))
  } catch (error) {
    throw broken(`Decode transfer failed for request rank=${rank} room=${room}: ${String(error)}`)
  }
  return {
    rank,
    spec: { externalTokens: Number.MAX_SAFE_INTEGER }, // all of the prompt; the engine computes its last token
    started() {},
    finished: () => Promise.resolve(),
  }
}

function broken(message: string): Refusal {
  return new Refusal(500, sglangError(message, 'InternalServerError', 500))
}

function goneSignal(exchange: Exchange): AbortSignal {
  const gone = new AbortController()
  exchange.response.once('close', () => {
    if (!exchange.response.writableFinished) gone.abort()
  })
  return gone.signal
}
