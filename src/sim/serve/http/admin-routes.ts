/** Routes that no real engine has: what a person or a test uses to see inside and to break things. */
import { WarmrouteError } from '../../../core/protocol/index.js'
import { parseFaults } from '../faults.js'
import { Refusal, sendJson } from './exchange.js'
import type { Routes } from './exchange.js'

export const adminRoutes: Routes = {
  'GET /sim/stats': (exchange) => sendJson(exchange, 200, exchange.server.stats()),
  'GET /sim/faults': (exchange) => sendJson(exchange, 200, exchange.server.faults.list()),
  'POST /sim/faults': async (exchange) => {
    exchange.server.arm(readFaults(await exchange.text()))
    sendJson(exchange, 200, exchange.server.faults.list())
  },
  'DELETE /sim/faults': (exchange) => {
    exchange.server.clearFaults()
    sendJson(exchange, 200, [])
  },
  'POST /sim/restart': (exchange) => {
    sendJson(exchange, 202, { restarting: true })
    exchange.response.on(
      'close',
      () => void exchange.server.restart(Number(exchange.url.searchParams.get('down_ms') ?? 0)),
    )
  },
}

function readFaults(text: string) {
  try {
    return parseFaults(JSON.parse(text))
  } catch (error) {
    const reason = error instanceof WarmrouteError || error instanceof SyntaxError ? error.message : 'unreadable'
    throw new Refusal(400, { error: reason })
  }
}
