/**
 * Mooncake's bootstrap server of a simulated prefill engine: says over HTTP which engine each rank is, and where its KV is
 * fetched. The rest is a meeting like NIXL's push.
 */
import { createServer, get } from 'node:http'
import type { IncomingMessage, Server } from 'node:http'
import type { SimNet } from './sim-world.js'

/** By rank. */
type MooncakeRanks = Readonly<Record<string, { readonly engine_id: string; readonly worker_addr: string }>>

export class MooncakeBootstrap {
  readonly #net: SimNet
  readonly #ranks: () => MooncakeRanks
  #server: Server | undefined
  #port = 0

  constructor(net: SimNet, ranks: () => MooncakeRanks) {
    this.#net = net
    this.#ranks = ranks
  }

  get port(): number {
    return this.#port
  }

  async open(host: string, port: number): Promise<void> {
    const server = createServer((request, response) => {
      const isQuery = request.method === 'GET' && request.url === '/query'
      response.writeHead(isQuery ? 200 : 404, { 'content-type': 'application/json' })
      response.end(isQuery ? JSON.stringify(this.#ranks()) : '{}')
    })
    this.#port = await this.#net.listen(server, host, port)
    this.#server = server
  }

  async close(): Promise<void> {
    const server = this.#server
    this.#server = undefined
    if (server) await this.#net.close(server)
  }
}

/** Where the engine of that id is to be asked; rejects when nobody there has it. */
export async function findMooncake(
  net: SimNet,
  address: string,
  engineId: string,
  signal: AbortSignal,
): Promise<{ readonly host: string; readonly port: number }> {
  const ranks = JSON.parse(await textAt(net, new URL('/query', address), signal)) as Ranks
  const found = Object.values(ranks).find(({ engine_id: id }) => id === engineId)
  if (typeof found?.worker_addr !== 'string') throw new Error(`no engine ${engineId} at ${address}`)
  const { hostname, port } = new URL(`tcp://${found.worker_addr}`)
  return { host: hostname.replace(/^\[|\]$/g, ''), port: Number(port) }
}

/** As another process may answer it. */
type Ranks = Record<string, { readonly engine_id?: unknown; readonly worker_addr?: unknown }>

function textAt(net: SimNet, url: URL, signal: AbortSignal): Promise<string> {
  return new Promise((resolve, reject) => {
    const createConnection = () => net.connect(url.hostname, Number(url.port))
    const read = (response: IncomingMessage): void => {
      let text = ''
      response.setEncoding('utf8').on('data', (part: string) => (text += part))
      response.once('end', () => resolve(text)).once('error', reject)
    }
    get(url, { createConnection, signal }, read).once('error', reject)
  })
}
