/** Sessions inside SGLang workers, asked for over HTTP: what the agent controller does with a worker, in SGLang's words. */
import { WarmrouteError } from '../../core/protocol/index.js'
import type { OpenSession, SessionPort, SessionReply } from '../../routing/index.js'
import { fetchText } from '../wire/fetch-text.js'
import type { Fleet } from '../workers/fleet.js'
import type { Worker } from '../workers/worker.js'

const timeoutMs = 5_000

export class EngineSessions implements SessionPort {
  readonly #fleet: Fleet

  constructor(fleet: Fleet) {
    this.#fleet = fleet
  }

  /** vLLM has no sessions to open; a fleet without SGLang goes on without them. */
  isAvailable(): Promise<boolean> {
    for (const worker of this.#fleet.all()) if (worker.spec.engine === 'sglang') return Promise.resolve(true)
    return Promise.resolve(false)
  }

  async open(workerId: bigint, request: OpenSession, signal: AbortSignal): Promise<SessionReply> {
    const worker = this.#find(workerId)
    if (worker.spec.engine !== 'sglang') return { status: 'ok' } // bound to its worker, which is all that can be had
    const { status, text } = await this.#ask(worker, '/open_session', signal, {
      capacity_of_str_len: request.capacityOfStrLen,
      session_id: request.sessionId,
      timeout: request.timeoutSecs,
    })
    return status === 200 ? { status: 'ok' } : { status: `http ${status}`, message: text.slice(0, 200) }
  }

  async close(workerId: bigint, sessionId: string, signal: AbortSignal): Promise<void> {
    const worker = this.#fleet.get(workerId)
    if (worker?.spec.engine !== 'sglang') return
    await this.#ask(worker, '/close_session', signal, { session_id: sessionId })
  }

  #find(workerId: bigint): Worker {
    const worker = this.#fleet.get(workerId)
    if (!worker) throw new WarmrouteError('WR_WORKER_NOT_FOUND', { reason: `worker ${workerId}` })
    return worker
  }

  #ask(worker: Worker, path: string, signal: AbortSignal, body: object): Promise<{ status: number; text: string }> {
    const headers = [['content-type', 'application/json']] as const
    const request = { method: 'POST', path, headers, body: Buffer.from(JSON.stringify(body)) }
    return fetchText(worker.link, request, { timeoutMs, signal })
  }
}
