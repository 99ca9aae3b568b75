/** Server-sent events to one client, with the faults that strike in the middle of a stream. */
import type { ServerResponse } from 'node:http'
import type { Fault } from '../faults.js'
import type { SimServer } from '../sim-engine.js'

export class EventStream {
  readonly #response: ServerResponse
  readonly #server: SimServer
  readonly #hang: Fault | undefined
  readonly #reset: Fault | undefined
  readonly #trickle: Fault | undefined
  #chunks = 0
  #lastMs = 0
  #isDead = false

  constructor(server: SimServer, response: ServerResponse) {
    this.#server = server
    this.#response = response
    this.#hang = server.faults.strike('hang_mid_stream')
    this.#reset = server.faults.strike('reset_mid_stream')
    this.#trickle = server.faults.strike('trickle')
  }

  /** Sends the head now (vLLM) rather than with the first event (SGLang). */
  open(): void {
    if (this.#response.headersSent || this.#response.destroyed) return
    this.#response.writeHead(200, { 'content-type': 'text/event-stream; charset=utf-8' })
    this.#response.flushHeaders()
  }

  data(json: string): void {
    this.#write(`data: ${json}\n\n`)
  }

  named(event: string, json: string): void {
    this.#write(`event: ${event}\ndata: ${json}\n\n`)
  }

  end(): void {
    this.#later(() => {
      if (!this.#isDead) this.#response.end()
    })
  }

  #write(text: string): void {
    this.#later(() => {
      if (this.#isDead || this.#response.destroyed) return
      this.open()
      if (this.#reset && this.#chunks >= this.#reset.after_chunks) {
        this.#isDead = true
        this.#response.socket?.resetAndDestroy()
        return
      }
      if (this.#hang && this.#chunks >= this.#hang.after_chunks) {
        this.#isDead = true // says nothing more and does not close
        return
      }
      this.#chunks++
      this.#response.write(text)
    })
  }

  /** A trickle spaces out everything that is written, in order. */
  #later(run: () => void): void {
    if (!this.#trickle) return run()
    const { clock } = this.#server
    this.#lastMs = Math.max(this.#lastMs, clock.now()) + this.#trickle.ms
    clock.at(this.#lastMs, run)
  }
}
