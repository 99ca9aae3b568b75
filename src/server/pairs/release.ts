/**
 * Lets go of KV that a prefill worker holds and nobody was sent for: a decode of one token that reads it and is thrown
 * away. vLLM knows no other way before the lease ends. Runs beside the request that left it, never after the lease, and
 * only with a ticket that nobody used: a second reader could read blocks that are somebody else's by then.
 */
import type { IncomingHttpHeaders } from 'node:http'
import { WarmrouteError } from '../../core/protocol/index.js'
import { releasingDecode } from '../../engines/index.js'
import { decodeOverride } from '../../routing/index.js'
import type { GatewayContext } from '../context.js'
import { engineRequest } from '../request/engine-request.js'
import { lookHarmless } from '../request/harmless.js'
import type { Prepared } from '../request/prepare.js'
import { placeOf, routeRequestOf } from '../request/route-request.js'
import { fetchText } from '../wire/fetch-text.js'
import type { HeldKv } from './held-kv.js'
import { cancelled } from './leg-errors.js'
import type { PrefillSide } from './prefill-side.js'

export interface Release {
  readonly context: GatewayContext
  readonly prepared: Prepared
  readonly side: PrefillSide
  readonly bookingId: string
  readonly headers: IncomingHttpHeaders
  readonly publicId: string
  readonly params: string
  readonly held: HeldKv
}

/** Returns at once. */
export function releaseHeld(release: Release): void {
  const { side, context, prepared } = release
  const stop = new AbortController()
  const untrack = side.trackRelease(stop)
  const { pairs } = prepared.model.meters
  const timeoutMs = Math.max(1, release.held.ticket.sendBeforeMs - context.now())
  const timer = setTimeout(() => stop.abort(), timeoutMs)
  timer.unref()
  void read(release, stop.signal, timeoutMs)
    .then((isSent) => pairs.released(isSent ? 'read' : 'lease'))
    .catch((error: unknown) => {
      if (!(error instanceof WarmrouteError)) throw error
      pairs.released('lease') // its worker lets go by itself when the lease ends
    })
    .finally(() => {
      clearTimeout(timer)
      untrack()
      release.held.letGo()
    })
}

async function read(release: Release, signal: AbortSignal, timeoutMs: number): Promise<boolean> {
  const { context, prepared, side, bookingId, headers, publicId, params } = release
  const { ticket } = release.held
  const { model } = prepared
  const terms = { excluded: side.notForDecode, override: decodeOverride(undefined) }
  const place = placeOf(prepared, undefined, new Set(), side.notForDecode)
  const choice = await model.spec.router.route(
    routeRequestOf(bookingId, prepared, undefined, undefined, place, signal, terms),
  )
  try {
    const worker = model.fleet.get(choice.workerId)
    const looking =
      worker &&
      lookHarmless(worker.spec.engine, prepared, context, () => {
        if (signal.aborted) throw cancelled()
      })
    if (looking) await looking
    if (!worker || ticket.take(context.now()) !== 'taken') return false
    const request = engineRequest({
      context,
      prepared,
      worker,
      rank: choice,
      requestId: publicId,
      headers,
      asksForUsage: false,
      leg: releasingDecode(prepared.body, params),
      mayStillSend: () => context.now() < ticket.sendBeforeMs,
    })
    worker.enter()
    try {
      await fetchText(worker.link, request, { timeoutMs, bytesMax: 16 * 1024 * 1024, signal })
      return true
    } finally {
      worker.leave()
    }
  } finally {
    model.spec.router.free(bookingId)
  }
}
