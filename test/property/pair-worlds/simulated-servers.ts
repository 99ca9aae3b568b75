/**
 * The simulator's own engines as the servers of a world: they keep leases, transfer, meet, fail and die as they do for
 * everybody else, only that their clock is virtual. A late or second read shows in their count and in wrong words.
 */
import { parseFaults, startSimEngineIn, VirtualWorld } from '../../../src/sim/index.js'
import type { SimEngine, SimEngineOptions, SimWorld } from '../../../src/sim/index.js'
import { askEngine } from '../../../src/sim/serve/ask-engine.case.js'
import type { WorkerSpec } from '../../../src/server/index.js'
import type { Answer } from './ask.js'
import type { PairServers } from './servers.js'
import { leaseMs } from './servers.js'
import type { VirtualTime } from './virtual-time.js'
import type { Client, Engines, World } from './world.js'
import { bodyOf } from './world.js'

type Simulated = Extract<Engines, { kind: 'simulated' }>

const route = '/v1/chat/completions'
/** Few enough that what is given away is soon somebody else's. */
const blocks = 32
let worlds = 0

export async function startSimulated(world: World, engines: Simulated, time: VirtualTime): Promise<PairServers> {
  const controls = await controlsOf(world.engine)
  const store = `world-${++worlds}`
  const start = (role: 'prefill' | 'decode', at: number): Promise<SimEngine> => {
    const isVllm = world.engine === 'vllm'
    const isNamed = world.connector === 'nixl_push' || world.connector === 'mooncake'
    const { transferMsPerToken, troubles, ranks } = engines
    const own = troubles.filter((trouble) => trouble.role === role && trouble.at === at)
    return startIn(time, world.engine, {
      ranks,
      pair: {
        kind: isVllm ? world.connector : role,
        ...(isVllm && isNamed ? { engineId: `e-${role}-${at}` } : {}), // otherwise another one after each restart
        store,
        leaseMs,
        transferMsPerToken,
        connectMs: 60,
        rendezvousMs: 300,
        heartbeatMs: 20,
      },
      faults: parseFaults(own.map(({ fault }) => fault)),
    })
  }
  const prefill = [await start('prefill', 0), await start('prefill', 1)]
  const decode = [await start('decode', 0), await start('decode', 1)]
  return new SimulatedServers(world, time, prefill, decode, controls)
}

function startIn(
  world: SimWorld,
  engine: World['engine'],
  options: Pick<SimEngineOptions, 'pair' | 'faults' | 'ranks'> = {},
): Promise<SimEngine> {
  return startSimEngineIn(world, {
    engine,
    models: ['m'],
    blockTokens: 16,
    blocks,
    speedup: 10,
    healthMs: 0,
    events: false,
    ...options,
  })
}

class SimulatedServers implements PairServers {
  readonly prefill: readonly SimEngine[]
  readonly decode: readonly SimEngine[]
  readonly #world: World
  readonly #time: VirtualTime
  readonly #controls: ReadonlyMap<string, string>

  constructor(
    world: World,
    time: VirtualTime,
    prefill: readonly SimEngine[],
    decode: readonly SimEngine[],
    controls: ReadonlyMap<string, string>,
  ) {
    this.#world = world
    this.#time = time
    this.prefill = prefill
    this.decode = decode
    this.#controls = controls
  }

  get holds(): number {
    return this.prefill.reduce((sum, engine) => sum + engine.stats().requests, 0)
  }

  /** Prefill workers are 1, 2, ..., decode workers 11, 12, ... */
  spec(role: 'prefill' | 'decode', at: number): WorkerSpec {
    const { engine, connector } = this.#world
    const { url, pairPort: port } = this[role][at]!
    const id = BigInt(role === 'prefill' ? 1 + at : 11 + at)
    const ranks = this[role][at]!.stats().ranks.length
    const engineIds = Array.from({ length: ranks }, () => `e-${role}-${at}`)
    const own = engine === 'vllm' ? { connector, engineIds } : {}
    const config = { dataParallelStartRank: 0, dataParallelSize: ranks }
    return { id, url, engine, role, config, transfer: { leaseMs, port, ...own } }
  }

  judgeAnswer(client: Client, { text }: Answer): string | undefined {
    const { words, isWhole } = wordsOf(client.isStream, text)
    const control = this.#controls.get(keyOf(client))!
    // Who was told to break off says less, never something else.
    if (isWhole ? words === control : control.startsWith(words)) return undefined
    return `answered "${words}" where one engine alone says "${control}"`
  }

  async judge(): Promise<readonly string[]> {
    const wrongs: string[] = []
    for (const [role, engines] of [
      ['prefill', this.prefill],
      ['decode', this.decode],
    ] as const)
      for (const engine of engines) {
        const { held, in_flight: inFlight, late_reads: late, ranks } = engine.stats()
        const busy = ranks.filter((rank) => rank.active_blocks + rank.running + rank.waiting > 0)
        if (late > 0) wrongs.push(`${late} reads after a lease, or a second time`)
        if (held + inFlight + busy.length > 0)
          wrongs.push(`a ${role} engine keeps ${JSON.stringify({ held, inFlight, busy })}`)
        if (!this.#time.net.has(engine.port)) wrongs.push(`a ${role} engine died of what it was sent`)
      }
    return [...wrongs, ...(await this.#judgeCaches())]
  }

  /** Wrong KV would be kept under right hashes: decode engines are asked what they say by themselves now. */
  async #judgeCaches(): Promise<readonly string[]> {
    if (this.#world.engine === 'sglang') return [] // its decode engines serve nothing alone
    const wrongs: string[] = []
    for (const engine of this.decode.filter(({ port }) => this.#time.net.has(port)))
      for (const prompt of [0, 1, 2]) {
        engine.clearFaults()
        const client = { prompt, maxTokens: 12, isStream: false }
        const { text } = await this.#time.during(askEngine(this.#time, engine.port, route, bodyOf(client)))
        const { words } = wordsOf(false, text)
        if (words !== this.#controls.get(keyOf(client))) wrongs.push(`a decode engine caches wrong KV: "${words}"`)
      }
    return wrongs
  }

  async close(): Promise<void> {
    for (const engine of [...this.prefill, ...this.decode]) await engine.close()
  }
}

/** What one engine alone says, by prompt and limit; asked once for all worlds. */
const controls = new Map<World['engine'], Promise<ReadonlyMap<string, string>>>()

function controlsOf(engine: World['engine']): Promise<ReadonlyMap<string, string>> {
  const known = controls.get(engine)
  if (known) return known
  const asked = askControls(engine)
  controls.set(engine, asked)
  return asked
}

async function askControls(engine: World['engine']): Promise<ReadonlyMap<string, string>> {
  const world = new VirtualWorld()
  const alone = await startIn(world, engine)
  const said = new Map<string, string>()
  for (const prompt of [0, 1, 2])
    for (const maxTokens of [undefined, 1, 12]) {
      const client = { prompt, maxTokens, isStream: false }
      const { text } = await world.during(askEngine(world, alone.port, route, bodyOf(client)))
      said.set(keyOf(client), wordsOf(false, text).words)
    }
  await alone.close()
  return said
}

function keyOf({ prompt, maxTokens }: Pick<Client, 'prompt' | 'maxTokens'>): string {
  return `${prompt}/${maxTokens}`
}

interface Choice {
  readonly message?: { readonly content?: string | null }
  readonly delta?: { readonly content?: string | null }
  readonly finish_reason?: string | null
}

/** The words of an answer, and whether it came to its own end. */
function wordsOf(isStream: boolean, text: string): { readonly words: string; readonly isWhole: boolean } {
  const jsons = isStream
    ? [...text.matchAll(/^data: (\{.*\})$/gm)].map(([, json]) => json!)
    : [text.slice(text.indexOf('{'), text.lastIndexOf('}') + 1)]
  const choices = jsons.flatMap((json) => (JSON.parse(json) as { choices?: Choice[] }).choices ?? [])
  const words = choices.map(({ message, delta }) => (message ?? delta)?.content ?? '').join('')
  return { words, isWhole: choices.some(({ finish_reason: reason }) => reason === 'length' || reason === 'stop') }
}
