/** `/v1/responses/{id}` of a vLLM that keeps responses: looked up, listened to again, cancelled. As recorded of 0.32.0. */
import type { EventLog, KeptResponse } from '../kept-response.js'
import { EventStream } from './event-stream.js'
import type { Exchange, Routes } from './exchange.js'
import { Refusal, sendJson } from './exchange.js'
import { invalid, vllmError } from './vllm-errors.js'

export const vllmStoredRoutes: Routes = {
  'GET /v1/responses/{id}': retrieve,
  'POST /v1/responses/{id}/cancel': cancel,
}

/** Nothing is stored unless the server was started to. */
export function keptResponse({ server }: Exchange, id: string): KeptResponse {
  const kept = server.responses.get(id)
  if (kept) return kept
  const message = `Response with id '${id}' not found.`
  throw new Refusal(404, vllmError(message, 'invalid_request_error', 'response_id', 404))
}

/** Ends behind the last event of an answer; of one that was cancelled it waits for it for ever, as the real one does. */
export function tellEvents({ server, response }: Exchange, log: EventLog, from: number): void {
  const stream = new EventStream(server, response)
  stream.open()
  const stop = log.follow(from, (type, json) => {
    stream.named(type, json)
    if (type === 'response.completed') stream.end()
  })
  response.on('close', stop)
}

function retrieve(exchange: Exchange): void {
  const { searchParams } = exchange.url
  const isStream = booleanOf(searchParams.get('stream'))
  const kept = keptResponse(exchange, idOf(exchange))
  if (!isStream) return sendJson(exchange, 200, kept.answer)
  const after = searchParams.get('starting_after')
  if (kept.events) return tellEvents(exchange, kept.events, after === null ? 0 : Number(after) + 1)
  new EventStream(exchange.server, exchange.response).open()
  exchange.response.destroy() // it finds out behind its head that there is nothing to tell
}

function cancel(exchange: Exchange): void {
  const kept = keptResponse(exchange, idOf(exchange))
  if (kept.answer['status'] !== 'queued')
    throw new Refusal(
      400,
      vllmError('Cannot cancel a synchronous response.', 'invalid_request_error', 'response_id', 400),
    )
  kept.answer = { ...kept.answer, status: 'cancelled' }
  kept.generation?.abort()
  sendJson(exchange, 200, kept.answer)
}

function idOf({ url }: Exchange): string {
  return decodeURIComponent(url.pathname.split('/')[3]!)
}

function booleanOf(text: string | null): boolean {
  if (text === null || /^(?:false|0|no|off|f|n)$/i.test(text)) return false
  if (/^(?:true|1|yes|on|t|y)$/i.test(text)) return true
  const words = 'Input should be a valid boolean, unable to interpret input'
  throw invalid(
    `{'type': 'bool_parsing', 'loc': 'query.stream', 'msg': '${words}', 'input': '${text}'}`,
    'query.stream',
  )
}
