/** What a route that is not an engine's looks like. */
import type { IncomingMessage, ServerResponse } from 'node:http'
import type { WorkerSpec, WorkerSteward } from '../options.js'
import type { WorkerReport } from '../workers/worker.js'

export interface RouteCall {
  readonly request: IncomingMessage
  readonly response: ServerResponse
  readonly path: string
  /** What follows a prefix. */
  readonly rest: string
  readonly query: string
}

export interface Route {
  readonly method: 'GET' | 'POST' | 'DELETE'
  readonly path: string
  /** True: the route has everything below its path. */
  readonly isPrefix?: boolean
  /** Everybody, those with an API key, or those with the admin key. */
  readonly access: 'open' | 'client' | 'admin'
  /** A rejection or a throw is answered as an error. */
  readonly handle: (call: RouteCall) => void | Promise<void>
}

/** What the admin routes may do with the fleet. */
export interface WorkerAdmin {
  setWorker(model: string, spec: WorkerSpec): void
  removeWorker(workerId: bigint): boolean
  drainWorker(workerId: bigint): Promise<void>
  workers(): readonly WorkerReport[]
  readonly steward?: WorkerSteward | undefined
}
