/** One side of the demo: simulated engines of both kinds, and a router in front of them, all in this process. */
import { completeRouterConfig } from '../../core/protocol/index.js'
import type { SimEngine } from '../../sim/index.js'
import { startSimEngine } from '../../sim/index.js'
import { Assembly } from '../assemble/assembly.js'

export interface DemoFleet {
  readonly url: string
  readonly assembly: Assembly
  close(): Promise<void>
}

export const demoModel = 'demo'
/** Both engines, so that one router serves them together; SGLang's own default is 64. */
const blockTokens = 16
/** A cache holds two or three of the eight system prompts with their chats: together the engines hold all of them. */
const blocks = 1200
/** Engines somewhat slower than the recorded profile, as a larger model would be. */
const speedup = 0.4

export interface FleetOptions {
  readonly policy: 'kv' | 'round-robin'
  /** The first half of the engines only prefills, the other half decodes. */
  readonly isPaired?: boolean
  /** No SGLang among them, so that two fleets can be compared engine by engine. */
  readonly isVllmOnly?: boolean
  readonly engines: number
  readonly port: number
  readonly settleMs: number
}

export async function startFleet({
  policy,
  isPaired = false,
  isVllmOnly = false,
  engines: count,
  port,
  settleMs,
}: FleetOptions): Promise<DemoFleet> {
  const engines: SimEngine[] = []
  let assembly: Assembly | undefined
  const close = async (): Promise<void> => {
    await assembly?.close()
    await Promise.all(engines.map((engine) => engine.close()))
  }
  try {
    for (let worker = 0; worker < count; worker++) {
      const engine = isVllmOnly || worker % 2 === 0 ? 'vllm' : 'sglang'
      engines.push(
        await startSimEngine({
          engine,
          models: [demoModel],
          blockTokens,
          blocks,
          speedup,
          worker,
          seed: worker + 1,
          ...(isPaired ? { pair: { kind: 'nixl' } } : {}),
        }),
      )
    }
    assembly = new Assembly({
      workers: engines.map(({ url }, at) => ({
        url,
        ...(isPaired ? { role: at < count / 2 ? ('prefill' as const) : ('decode' as const) } : {}),
      })),
      config: completeRouterConfig(),
      policy,
      gateway: { listen: { port }, usageSampleEvery: 0, deadlines: { drainMs: 500 } },
    })
    const { url } = await assembly.listen()
    await assembly.looked()
    const wanted = policy === 'kv' ? 'exact' : 'load-only'
    await assembly.until((reports) => reports.every(({ verdict }) => verdict?.mode === wanted), settleMs)
    return { url, assembly, close }
  } catch (error) {
    await close()
    throw error
  }
}
