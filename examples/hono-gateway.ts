/**
 * Warm routing inside a gateway that you already have: here a Hono app, and a tokenizer of your choice. The worker's answer
 * is passed on as it comes; the booking ends with the stream, whichever way it ends.
 */
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
      const headers = {
        'content-type': answer.headers.get('content-type') ?? 'application/json',
        'x-worker': placement.worker,
      }
      return new Response(relay(answer, placement), { status: answer.status, headers })
    } catch {
      placement.free()
      return context.json({ error: `${placement.worker} did not answer` }, 502)
    }
  })
  return app
}

/** The worker's bytes. A plain end, an error and a client that leaves all free the booking, also before anything was read. */
function relay(answer: Response, placement: Placement): ReadableStream<Uint8Array> {
  const reader = answer.body?.getReader()
  return new ReadableStream({
    async pull(controller) {
      try {
        const { done, value } = (await reader?.read()) ?? { done: true, value: undefined }
        if (!done) {
          placement.prefillDone()
          controller.enqueue(value)
          return
        }
        controller.close()
      } catch (error) {
        controller.error(error)
      }
      placement.free()
    },
    async cancel(reason) {
      placement.free()
      await reader?.cancel(reason)
    },
  })
}
