/** What a world's run needs of its prefill and decode servers, and the scripted ones. */
import type { WorkerSpec } from '../../../src/server/index.js'
import type { Act } from '../../../src/server/pairs/fake-pair.case.js'
import { FakePair } from '../../../src/server/pairs/fake-pair.case.js'
import type { Answer } from './ask.js'
import type { VirtualTime } from './virtual-time.js'
import type { Client, World } from './world.js'
import { endless } from './world.js'

export interface PairServers {
  readonly prefill: readonly unknown[]
  readonly decode: readonly unknown[]
  spec(role: 'prefill' | 'decode', at: number): WorkerSpec
  /** Prefills whose KV was kept for a reader. */
  readonly holds: number
  /** What is wrong with a whole answer of status 200. */
  judgeAnswer(client: Client, answer: Answer): string | undefined
  /**
   * At the end: what was done to them that no router may do, and what they are left with. `known` are the holds that the gateway
   * says it left to the end of their lease, or to a decode worker that failed.
   */
  judge(known: number): Promise<readonly string[]>
  close(): Promise<void>
}

export const leaseMs = 160

export async function startScripted(world: World, acts: readonly Act[], time: VirtualTime): Promise<PairServers> {
  const pair = await FakePair.start(world.engine, leaseMs, [2, 2], { net: time.net, now: time.now })
  const nextAct = endless(acts)
  pair.connector = world.connector
  pair.act = (role) => {
    const act = nextAct()
    const isForPrefill = act.kind === 'params' || act.kind === 'terminal'
    return isForPrefill && (role === 'decode' || world.engine === 'sglang') ? { kind: 'ok' } : act
  }
  return new ScriptedServers(pair)
}

class ScriptedServers implements PairServers {
  readonly #pair: FakePair

  constructor(pair: FakePair) {
    this.#pair = pair
  }

  get prefill() {
    return this.#pair.prefill
  }

  get decode() {
    return this.#pair.decode
  }

  get holds(): number {
    return this.#pair.holds.size
  }

  spec(role: 'prefill' | 'decode', at: number): WorkerSpec {
    return this.#pair.spec(role, at)
  }

  judgeAnswer(): undefined {}

  /** What waited was read, or its lease ended; and the second is known to the gateway. */
  judge(known: number): Promise<readonly string[]> {
    const wrongs = [...this.#pair.wrongs]
    const holds = [...this.#pair.holds.values()]
    if (holds.some(({ state }) => state === 'held')) wrongs.push('KV is held after its lease')
    const expired = holds.filter(({ state, isDelivered }) => state === 'expired' && isDelivered).length
    if (expired > known) wrongs.push(`${expired} leases ended unread, the gateway knows of ${known}`)
    return Promise.resolve(wrongs)
  }

  close(): Promise<void> {
    return this.#pair.close()
  }
}
