/**
 * Warm routing inside a gateway that you already have: here a Hono app, and a tokenizer of your choice. The worker's answer
 * is passed on as it comes; the booking ends with the stream, whichever way it ends.
 */
import { ReadableStream } from 'node:stream/web'
import { Hono } from 'hono'
import type { Placement, Router } from 'warmroute'

export interface GatewayOptions {
  readonly router: Router
  /** Worker name to base URL. */
  readonly urls: ReadonlyMap<string, string>
  /** The prompt exactly as the engines see it. */
  readonly tokenize: (body: unknown) => Uint32Array
}

export function createGateway({ router, urls, tokenize }: GatewayOptions): Hono {
  const app = new Hono()
  app.post('/v1/chat/completions', async (context) => {
    const text = await context.req.text()
    const placement = await router.route({ tokens: tokenize(JSON.parse(text)), signal: context.req.raw.signal })
    try {
      const answer = await fetch(`${urls.get(placement.worker)}/v1/chat/completions`, {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body: text,
        signal: context.req.raw.signal,
      })
      const body = ReadableStream.from(relay(answer, placement))
      const headers = {
        'content-type': answer.headers.get('content-type') ?? 'application/json',
        'x-worker': placement.worker,
      }
      return new Response(body, { status: answer.status, headers })
    } catch (error) {
      placement.free()
      throw error
    }
  })
  return app
}

/** The worker's bytes; leaving the loop early, an error and a plain end all free the booking. */
async function* relay(answer: Response, placement: Placement): AsyncGenerator<Uint8Array> {
  try {
    for await (const chunk of answer.body ?? []) {
      placement.prefillDone()
      yield chunk as Uint8Array
    }
  } finally {
    placement.free()
  }
}
