// Question: does a long queue slow a decision down? With 100,000 requests parked, entering and leaving must stay small
// beside the decision itself.
import type { Bench } from '../../harness.js'
import { defineBench } from '../../harness.js'
import { orderingScore, PolicyQueue } from '../../../src/core/queue/index.js'

export const benches: Bench[] = [
  defineBench('queue.parked', 'how long does it take to park and to take out, with 100,000 parked?', (context) => {
    const parked = context.size(1000, 100_000)
    const turns = context.size(1000, 20_000)
    const queue = new PolicyQueue<number>(
      [{ name: 'default', queuePolicy: 'wspt', quantum: 1, prefillBusyThresholdFrac: 4 }],
      2 * parked + turns,
    )
    let random = 12345
    const park = (id: number): void => {
      random = (random * 1103515245 + 12345) & 0x7fffffff
      const islTokens = 1 + (random % 8192)
      const facts = { priorityJump: 0, arrivedSecs: id / 1000, islTokens, bestCachedTokens: 0 }
      const score = orderingScore('wspt', facts)
      queue.park(
        { classIndex: 0, laneKey: '', strictPriority: 0, score, islTokens, cachedTokens: 0, payload: id },
        8,
        false,
      )
    }
    for (let id = 0; id < parked; id++) park(id)
    // A round parks and then takes out as many, so that the queue is as long at the end as at the beginning.
    const samples = { enqueue: [] as number[], pop: [] as number[] }
    let sum = 0
    const rounds = context.isSmoke ? 1 : 7
    for (let round = 0; round <= rounds; round++) {
      const enqueue = timed(() => {
        for (let turn = 0; turn < turns; turn++) park(turn)
      })
      const pop = timed(() => {
        for (let turn = 0; turn < turns; turn++) sum += queue.popNext(() => false)!.islTokens
      })
      if (round === 0 && !context.isSmoke) continue // warm-up
      samples.enqueue.push(enqueue / turns)
      samples.pop.push(pop / turns)
    }
    for (const [name, values] of Object.entries(samples)) {
      const sorted = [...values].sort((a, b) => a - b)
      const median = sorted[sorted.length >> 1]!
      const spread = (sorted.at(-1)! - sorted[0]!) / median
      context.report({ id: `queue.parked100k.${name}_us`, value: median, unit: 'us', spread, checksum: String(sum) })
    }
  }),
]

function timed(work: () => void): number {
  const started = process.cpuUsage()
  work()
  const used = process.cpuUsage(started)
  return Math.max(0.001, used.user + used.system)
}
