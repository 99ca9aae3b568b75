// Question: how many small chats can one simulated engine process serve? It must not be what limits a router under test.
import { fork } from 'node:child_process'
import type { ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { Agent, request as httpRequest } from 'node:http'
import { defineBench } from '../harness.js'

interface Usage {
  readonly cpuMs: number
  readonly requests: number
}

export const benches = [
  defineBench('sim.http', 'small chats per second of CPU, one engine process on real sockets', async (bench) => {
    const requests = bench.size(40, 6000)
    const engine = fork(new URL('./http-engine.ts', import.meta.url), { execArgv: ['--import', 'tsx'] })
    const [{ url }] = (await once(engine, 'message')) as [{ url: string }]
    const agent = new Agent({ keepAlive: true, maxSockets: 32 })
    try {
      const rates: number[] = []
      await send(url, agent, Math.ceil(requests / 4))
      for (let run = 0; run < (bench.isSmoke ? 1 : 5); run++) {
        const before = await usageOf(engine)
        await send(url, agent, requests)
        const after = await usageOf(engine)
        rates.push(((after.requests - before.requests) * 1000) / (after.cpuMs - before.cpuMs))
      }
      rates.sort((a, b) => a - b)
      const median = rates[rates.length >> 1]!
      bench.report({
        id: 'sim.http.req_s',
        value: median,
        unit: 'requests per CPU second of the engine',
        spread: (rates.at(-1)! - rates[0]!) / median,
        checksum: String(requests),
      })
    } finally {
      agent.destroy()
      engine.kill()
      await once(engine, 'exit')
    }
  }),
]

async function send(url: string, agent: Agent, count: number): Promise<void> {
  let next = 0
  const worker = async (): Promise<void> => {
    while (next < count) await chat(url, agent, next++)
  }
  await Promise.all(Array.from({ length: 32 }, worker))
}

function chat(url: string, agent: Agent, index: number): Promise<void> {
  const body = JSON.stringify({
    model: 'sim',
    max_tokens: 8,
    messages: [
      { role: 'system', content: 'You are a helpful assistant that answers in one short sentence.' },
      { role: 'user', content: `Question ${index % 50}: what is the capital of this place?` },
    ],
  })
  return new Promise((resolve, reject) => {
    const headers = { 'content-type': 'application/json', 'content-length': Buffer.byteLength(body) }
    const request = httpRequest(`${url}/v1/chat/completions`, { method: 'POST', agent, headers }, (reply) => {
      reply.resume()
      reply.on('end', () => (reply.statusCode === 200 ? resolve() : reject(new Error(`status ${reply.statusCode}`))))
    })
    request.on('error', reject)
    request.end(body)
  })
}

async function usageOf(engine: ChildProcess): Promise<Usage> {
  engine.send('usage')
  const [usage] = (await once(engine, 'message')) as [Usage]
  return usage
}
