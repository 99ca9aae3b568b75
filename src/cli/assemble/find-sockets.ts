/**
 * The event sockets of an engine that does not say where they are, as vLLM did not for long. The usual ports are asked for
 * their ZeroMQ greeting; a publisher there may be another engine's on the same host, so it is believed only when a prompt
 * that nobody else can have sent comes back in its events, and a replay socket when it shows that prompt once more.
 */
import type { EngineFacts, EventSourceFact } from '../../engines/index.js'
import { probeSocketType } from '../../engines/index.js'
import { Ear } from '../check/ear.js'
import type { Patient } from '../check/patient.js'
import { generate } from '../check/patient.js'
import { randomTokens, startsAlike } from '../check/self-test.js'
import type { WorkerAddress } from './worker-keeper.js'

export interface UsualPorts {
  readonly events: number
  /** In the order in which they are tried. */
  readonly replay: readonly number[]
}

/** The default of every engine, and the replay ports of their documentation; rank r is r above. */
export const usualPorts: UsualPorts = { events: 5557, replay: [5657, 5558] }

const readyMs = 3_000
const storeMs = 5_000

/** Empty: none that is certainly this engine's. */
export async function findSockets(
  address: WorkerAddress,
  facts: EngineFacts,
  ports: UsualPorts,
  signal: AbortSignal,
): Promise<readonly EventSourceFact[]> {
  const { blockSize, kind, models, dpRanks } = facts
  const model = models?.value[0]?.name
  if (kind.value !== 'vllm' || !blockSize || model === undefined) return []
  const { hostname } = new URL(address.url)
  const ranks = dpRanks?.value ?? 1
  const patient: Patient = { url: address.url, apiKey: address.apiKey, facts, model, ranks, signal }
  const found: EventSourceFact[] = []
  for (let dpRank = 0; dpRank < ranks; dpRank++) {
    const at = (port: number): string => `tcp://${hostname}:${port + dpRank}`
    const source = { dpRank, endpoint: at(ports.events), replayEndpoint: undefined, topic: '', bufferSteps: undefined }
    if ((await probeSocketType(source.endpoint, 'SUB')) !== 'PUB') return []
    const prompt = randomTokens(3 * blockSize.value + 1)
    if (!(await tells(patient, source, prompt, blockSize.value))) return []
    found.push(await withReplay(source, ports.replay.map(at), prompt, blockSize.value, signal))
  }
  return found
}

async function tells(patient: Patient, source: EventSourceFact, prompt: Uint32Array, size: number): Promise<boolean> {
  const ear = new Ear([source], size, false)
  try {
    if (!(await ear.ready(readyMs, patient.signal))) return false
    const { status } = await generate(patient, '/v1/completions', { prompt: [...prompt] }, source.dpRank)
    if (status !== 200) return false
    return (await ear.heard((it) => startsAlike(it, prompt), storeMs, patient.signal)) !== undefined
  } finally {
    await ear.close()
  }
}

/** The prompt has long been published when this listens, so only a replay can show it. */
async function withReplay(
  source: EventSourceFact,
  endpoints: readonly string[],
  prompt: Uint32Array,
  size: number,
  signal: AbortSignal,
): Promise<EventSourceFact> {
  for (const replayEndpoint of endpoints) {
    if ((await probeSocketType(replayEndpoint, 'DEALER')) !== 'ROUTER') continue
    const ear = new Ear([{ ...source, replayEndpoint }], size, true)
    try {
      if (await ear.heard((it) => startsAlike(it, prompt), storeMs, signal)) return { ...source, replayEndpoint }
    } finally {
      await ear.close()
    }
  }
  return source
}
