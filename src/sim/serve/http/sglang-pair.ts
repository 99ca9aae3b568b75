/** SGLang's disaggregated legs: the bootstrap fields of a body, and what they make of a request. */
import { awaitPrefill } from '../bootstrap.js'
import { wait } from '../sim-world.js'
import type { Generation, GenerationSink, GenerationSpec } from '../generation.js'
import { numberOf, textOf } from './body.js'
import type { Exchange, Json } from './exchange.js'
import { Refusal, sendJson } from './exchange.js'
import { runGeneration } from './run-generation.js'
import { sglangError, sglangRank, sglangRefusal } from './sglang-errors.js'
import { goneController } from './transfer.js'

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
  const isPlain = (kind !== 'prefill' && kind !== 'decode') || textOf(body, 'bootstrap_host') === fakeHost
  if (isPlain)
    return { rank: sglangRank(server, body, pinned), spec: {}, started() {}, finished: () => Promise.resolve() }
  const rooms = roomsOf(body)
  if (!rooms.every((room) => Number.isSafeInteger(room) && room >= 0))
    throw sglangRefusal('Disaggregated request received without bootstrap room id.')
  if (isParallel(body)) await neverMeets(exchange, rooms)
  return kind === 'prefill' ? prefillLeg(exchange, body, pinned, rooms) : decodeLeg(exchange, body, pinned, rooms)
}

/** One room per prompt; of a single one the engine makes neighbours. */
function roomsOf(body: Json): readonly number[] {
  const given = body['bootstrap_room']
  const count = promptCount(body)
  if (!Array.isArray(given))
    return Array.from({ length: count }, (_, at) => (numberOf(body, 'bootstrap_room') ?? -1) + at)
  if (given.length !== count) throw sglangRefusal('The length of bootstrap_room must be the batch size.')
  return given as number[]
}

function promptCount(body: Json): number {
  for (const name of ['prompt', 'text', 'input_ids']) {
    const value = body[name]
    if (Array.isArray(value) && typeof value[0] !== 'number') return Math.max(1, value.length)
  }
  return 1
}

function isParallel(body: Json): boolean {
  const own = (body['sampling_params'] as { n?: unknown } | null | undefined)?.n
  return Number(numberOf(body, 'n') ?? own ?? 1) > 1
}

/** Of several answers to one prompt all are sent into one room, where they wait until their time is over (0.5.18). */
async function neverMeets(exchange: Exchange, rooms: readonly number[]): Promise<never> {
  const { clock, options } = exchange.server
  await wait(clock, options.pair!.rendezvousMs)
  throw broken(`Decode transfer failed for room=${rooms[0]}: several requests wait in one room`)
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

async function prefillLeg(
  exchange: Exchange,
  body: Json,
  pinned: string | undefined,
  rooms: readonly number[],
): Promise<PairLeg> {
  const { server } = exchange
  const bootstrap = server.bootstrap!
  const { rendezvousMs, transferMsPerToken } = server.options.pair!
  const [room] = rooms as [number]
  const rank = room % server.ranks.length
  const fail = (reason: string): void => rooms.forEach((it) => bootstrap.fail(it, reason))
  if (rooms.some((it) => it % server.ranks.length !== rank)) throw broken('rooms of several ranks are not simulated')
  const isPinned =
    pinned !== undefined || body['routed_dp_rank'] !== undefined || body['data_parallel_rank'] !== undefined
  const asked = isPinned ? sglangRank(server, body, pinned) : rank
  if (asked !== rank && body['disagg_prefill_dp_rank'] === undefined) {
    fail('follow_bootstrap_room conflict')
    throw broken(`Prefill bootstrap failed: follow_bootstrap_room conflict, room ${room} belongs to rank ${rank}`)
  }
  const gone = goneController(exchange).signal
  let left: Promise<void>
  try {
    const met = await Promise.all(rooms.map((it) => bootstrap.awaitDecode(it, rendezvousMs, gone)))
    left = Promise.race(met.map((it) => it.left))
  } catch (error) {
    throw broken(`Prefill bootstrap failed for request rank=${rank} room=${room}: ${String(error)}`)
  }
  let isAlone = false
  let tokens = 0
  gone.addEventListener('abort', () => fail('the prefill side was aborted'), { once: true })
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
      await wait(server.clock, tokens * transferMsPerToken)
      if (isAlone) throw broken(`Prefill transfer failed for room=${room}: the decode side left`)
      for (const it of rooms) bootstrap.complete(it)
    },
  }
}

async function decodeLeg(
  exchange: Exchange,
  body: Json,
  pinned: string | undefined,
  rooms: readonly number[],
): Promise<PairLeg> {
  const { server } = exchange
  const rank = sglangRank(server, body, pinned)
  const host = textOf(body, 'bootstrap_host') ?? ''
  const port = numberOf(body, 'bootstrap_port') ?? 8998
  try {
    const gone = goneController(exchange).signal
    const pair = server.options.pair!
    await Promise.all(rooms.map((room) => awaitPrefill(server.world, { host, port, room }, pair, gone)))
  } catch (error) {
    throw broken(`Decode transfer failed for request rank=${rank} room=${rooms.join()}: ${String(error)}`)
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
