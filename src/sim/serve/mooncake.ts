/**
 * Mooncake's bootstrap server of a simulated prefill engine: says over HTTP which engine each rank is, and where its KV is
 * fetched. The rest is a meeting like NIXL's push.
 */
import { once } from 'node:events'
import { createServer } from 'node:http'
import type { Server } from 'node:http'
import type { AddressInfo } from 'node:net'

/** By rank. */
type MooncakeRanks = Readonly<Record<string, { readonly engine_id: string; readonly worker_addr: string }>>

export class MooncakeBootstrap {
  readonly #ranks: () => MooncakeRanks
  #server: Server | undefined

  constructor(ranks: () => MooncakeRanks) {
    this.#ranks = ranks
  }

  get port(): number {
    return (this.#server?.address() as AddressInfo | null)?.port ?? 0
  }

  async open(host: string, port: number): Promise<void> {
    const server = createServer((request, response) => {
      const isQuery = request.method === 'GET' && request.url === '/query'
      response.writeHead(isQuery ? 200 : 404, { 'content-type': 'application/json' })
      response.end(isQuery ? JSON.stringify(this.#ranks()) : '{}')
    })
    server.listen(port, host)
    await once(server, 'listening')
    this.#server = server
  }

  async close(): Promise<void> {
    const server = this.#server
    this.#server = undefined
    if (!server) return
    const closed = once(server, 'close')
    server.close()
    server.closeAllConnections()
    await closed
  }
}

/** Where the engine of that id is to be asked; rejects when nobody there has it. */
export async function findMooncake(
  address: string,
  engineId: string,
  signal: AbortSignal,
): Promise<{ readonly host: string; readonly port: number }> {
  const response = await fetch(new URL('/query', address), { signal })
  const ranks = (await response.json()) as Record<string, { engine_id?: unknown; worker_addr?: unknown }>
  const found = Object.values(ranks).find(({ engine_id: id }) => id === engineId)
  if (typeof found?.worker_addr !== 'string') throw new Error(`no engine ${engineId} at ${address}`)
  const { hostname, port } = new URL(`tcp://${found.worker_addr}`)
  return { host: hostname, port: Number(port) }
}
