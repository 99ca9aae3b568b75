/** A request is under way from here on: whoever ends the gateway or hears that a client left finds it, until its answer has ended. */
import type { IncomingMessage } from 'node:http'
import type { GatewayContext } from './context.js'
import type { Caller } from './http/callers.js'

type Running = Parameters<GatewayContext['running']['add']>[0] &
  Parameters<GatewayContext['clock']['delete']>[0] &
  Caller

export interface Serving {
  readonly serve: () => Promise<number>
  /** Tells the client, and answers the status that it was told. */
  readonly fail: (error: unknown) => number
  readonly finish: (status: number) => void
}

/** Never rejects. */
export async function whileUnderWay(
  { running, callers, clock }: Pick<GatewayContext, 'running' | 'callers' | 'clock'>,
  { socket }: IncomingMessage,
  request: Running,
  { serve, fail, finish }: Serving,
): Promise<void> {
  running.add(request)
  callers.add(socket, request)
  let status = 500
  try {
    status = await serve()
  } catch (error) {
    status = fail(error)
  } finally {
    clock.delete(request)
    callers.delete(socket, request)
    running.delete(request)
    finish(status)
  }
}
