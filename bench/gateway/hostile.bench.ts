/** How long can one request hold the loop of a gateway that makes exact tokens? Everything from its bytes to its booking counts. */
import type { ChildProcess } from 'node:child_process'
import { copyFileSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { defineBench, summarise } from '../harness.js'
import type { BenchContext } from '../harness.js'
import { tokenizerFolder } from '../tokens/texts.js'
import type { Started } from './children.js'
import { ask, compileSources, sources, startChild } from './children.js'
import { firstRequests } from './first-requests.js'
import type { HostileBody } from './hostile-bodies.js'
import { hostileBodies, loopsTemplate } from './hostile-bodies.js'
import type { Sent } from './send.js'
import { send } from './send.js'
import type { Use } from './use.js'
import { shownHeld } from './use.js'

export const benches = [
  defineBench('gateway.hostile', 'how long can one request hold the loop, whatever it holds?', hostile),
]

/** Milliseconds: a single round that takes longer is said, with the collector's part of it. */
const worthALine = 6
const noLinux = 'this figure needs the times that Linux counts for threads'

async function hostile(bench: BenchContext): Promise<void> {
  const code = bench.isSmoke ? sources : compileSources()
  const loopsFolder = loopsModel()
  const engines = await startChild<{ ports: number[] }>(code, './engines.child.ts')
  const { ports } = engines.first
  await measureFirst(bench, () => startChild(code, './gateway.child.ts', { ports, isExact: true }))
  const options = { ports, isExact: true, loopsFolder }
  const gateway = await startChild<{ port: number; strictPort: number }>(code, './gateway.child.ts', options)
  const { port, strictPort } = gateway.first
  await measure(bench, gateway.child, { id: 'gateway.hostile_stall_max_ms', port, firstRound: 0, isStrict: false })
  const strictRound = 100 // the tokenizer is the same, and would remember the texts
  await measure(bench, gateway.child, {
    id: 'gateway.hostile_strict_stall_max_ms',
    port: strictPort,
    firstRound: strictRound,
    isStrict: true,
  })
  gateway.child.disconnect()
  engines.child.disconnect()
  rmSync(loopsFolder, { recursive: true })
}

/** The tokenizer of Qwen3 with a template that is meant to take long. */
function loopsModel(): string {
  const folder = mkdtempSync(join(tmpdir(), 'warmroute-loops-'))
  for (const file of ['tokenizer.json', 'tokenizer_config.json'])
    copyFileSync(join(tokenizerFolder('qwen3'), file), join(folder, file))
  writeFileSync(join(folder, 'chat_template.jinja'), loopsTemplate)
  return folder
}

/** The longest turn of the loop that the first request of a process takes, by what it asks for. */
async function measureFirst(bench: BenchContext, start: () => Promise<Started<{ port: number }>>): Promise<void> {
  let worst = 0
  const requests = Object.entries(firstRequests)
  for (const [name, request] of bench.isSmoke ? requests.slice(0, 1) : requests) {
    const uses: Use[] = []
    for (let round = 0; round < bench.size(1, 4); round++) uses.push(await firstTurn(bench, await start(), request))
    const turns = uses.map(({ busyMaxMs = 0 }) => busyMaxMs)
    const shown = turns.map((turn) => turn.toFixed(1)).join(', ')
    const held = uses.map((use) => shownHeld(use)).join(', ')
    if (!bench.isSmoke) console.error(`  the first request of a process, ${name}: ${shown} ms; by the clock ${held}`)
    worst = Math.max(worst, summarise(turns).median)
  }
  bench.report({ id: 'gateway.first_request_stall_ms', value: worst, unit: 'ms', spread: 0, checksum: 'first' })
}

async function firstTurn(bench: BenchContext, { child, first }: Started<{ port: number }>, it: Sent): Promise<Use> {
  await ask<Use>(child, 'watch')
  await new Promise((resolve) => setTimeout(resolve, bench.size(10, 1000))) // what starting leaves behind is not the request's
  await ask<Use>(child, 'watch')
  const status = await send(first.port, it)
  if (status !== 200) throw new Error(`the first request: status ${status}`)
  const use = await ask<Use>(child, 'use')
  child.disconnect()
  return use
}

interface Target {
  readonly id: string
  readonly port: number
  readonly firstRound: number
  readonly isStrict: boolean
}

async function measure(bench: BenchContext, gateway: ChildProcess, target: Target): Promise<void> {
  const { id, port, firstRound, isStrict } = target
  const only = process.env['BENCH_ONLY']
  const turns = new Map<string, number[]>()
  const held = new Map<string, string[]>()
  const statuses = new Map<string, number>()
  let answered = 0
  for (let round = 0; round < bench.size(1, 6); round++) {
    for (const [name, body] of Object.entries(hostileBodies(firstRound + round, bench.size))) {
      if (only !== undefined && !name.includes(only)) continue
      const { prompts } = await ask<Use>(gateway, 'watch')
      const status = await send(port, body)
      const use = await ask<Use>(gateway, 'use')
      const { busyMaxMs, collectedMs, faults, prompts: after } = use
      const became = Object.keys(after).filter((what) => after[what] !== prompts[what])
      if (!bench.isSmoke) requireSaid(name, body, isStrict, status, became)
      if (busyMaxMs === undefined && isLinux()) throw new Error(noLinux)
      if (!bench.isSmoke && (busyMaxMs ?? 0) > worthALine && round > 1)
        console.error(
          `  ${name}, round ${round}: ${busyMaxMs?.toFixed(1)} ms, collector ${collectedMs?.toFixed(1)} ms of it, ${faults} faults`,
        )
      answered += status
      statuses.set(name, status)
      turns.set(name, [...(turns.get(name) ?? []), busyMaxMs ?? 0])
      held.set(name, [...(held.get(name) ?? []), shownHeld(use)])
    }
  }
  let worst = 0
  if (!bench.isSmoke) console.error(id)
  for (const [name, samples] of turns) {
    const settled = samples.slice(bench.isSmoke ? 0 : 2) // the compiler needs two
    const { median } = summarise(settled)
    if (!bench.isSmoke)
      console.error(
        `  ${name} (${statuses.get(name)}): ${median.toFixed(2)} ms, at most ${Math.max(...settled).toFixed(2)} ms; by the clock ${held.get(name)?.slice(2).join(', ')}`,
      )
    worst = Math.max(worst, median)
  }
  bench.report({ id, value: worst, unit: 'ms', spread: 0, checksum: String(answered) })
}

/** A row that is refused, or whose tokens are not made or not given up as its name says, would measure something else. */
function requireSaid(
  name: string,
  { statuses = [200, 200], tokens }: HostileBody,
  isStrict: boolean,
  status: number,
  became: readonly string[],
): void {
  const expected = statuses[isStrict ? 1 : 0]
  if (status !== expected) throw new Error(`${name}: status ${status}, not ${expected}`)
  if (tokens !== undefined && status === 200 && !tokens.some((it) => became.includes(it)))
    throw new Error(`${name}: its tokens are ${became.join(', ')}, not ${tokens.join(' or ')}`)
}

function isLinux(): boolean {
  try {
    return readFileSync('/proc/self/schedstat').length > 0
  } catch {
    return false
  }
}
