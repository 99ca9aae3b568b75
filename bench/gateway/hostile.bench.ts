/** How long can one request hold the loop of a gateway that makes exact tokens? Everything from its bytes to its booking counts. */
import { readFileSync } from 'node:fs'
import { request as httpRequest } from 'node:http'
import { defineBench, summarise } from '../harness.js'
import type { BenchContext } from '../harness.js'
import { ask, compileSources, sources, startChild } from './children.js'
import type { HostileBody } from './hostile-bodies.js'
import { hostileBodies } from './hostile-bodies.js'
import type { Use } from './use.js'

export const benches = [
  defineBench('gateway.hostile', 'how long can one request hold the loop, whatever it holds?', hostile),
]

const noLinux = 'this figure needs the times that Linux counts for threads'

async function hostile(bench: BenchContext): Promise<void> {
  const code = bench.isSmoke ? sources : compileSources()
  const engines = await startChild<{ ports: number[] }>(code, './engines.child.ts')
  const { ports } = engines.first
  const gateway = await startChild<{ port: number }>(code, './gateway.child.ts', { ports, isExact: true })
  const only = process.env['BENCH_ONLY']
  const rounds = bench.size(1, 6)
  const turns = new Map<string, number[]>()
  let answered = 0
  for (let round = 0; round < rounds; round++) {
    for (const [name, body] of Object.entries(hostileBodies(round, bench.size))) {
      if (only !== undefined && !name.includes(only)) continue
      await ask<Use>(gateway.child, 'watch')
      answered += await send(gateway.first.port, body)
      const { busyMaxMs } = await ask<Use>(gateway.child, 'use')
      if (busyMaxMs === undefined && isLinux()) throw new Error(noLinux)
      turns.set(name, [...(turns.get(name) ?? []), busyMaxMs ?? 0])
    }
  }
  let worst = 0
  for (const [name, samples] of turns) {
    const settled = samples.slice(bench.isSmoke ? 0 : 2) // the compiler needs two
    const { median } = summarise(settled)
    if (!bench.isSmoke)
      console.error(`  ${name}: ${median.toFixed(2)} ms, at most ${Math.max(...settled).toFixed(2)} ms`)
    worst = Math.max(worst, median)
  }
  gateway.child.disconnect()
  engines.child.disconnect()
  bench.report({ id: 'gateway.hostile_stall_max_ms', value: worst, unit: 'ms', spread: 0, checksum: String(answered) })
}

function isLinux(): boolean {
  try {
    return readFileSync('/proc/self/schedstat').length > 0
  } catch {
    return false
  }
}

/** Its status: an answer or a typed refusal, never a connection that breaks. */
function send(port: number, { path, body }: HostileBody): Promise<number> {
  return new Promise((resolve, reject) => {
    const headers = { 'content-type': 'application/json', 'content-length': body.length }
    const request = httpRequest({ port, host: '127.0.0.1', path, method: 'POST', headers }, (response) => {
      response.resume().once('end', () => resolve(response.statusCode ?? 0))
    })
    request.once('error', reject).end(body)
  })
}
