/** A router that follows one rank, saves what it knows again and again, and says what it sees. Made to be killed. */
import { createBlockHasher } from '../core/hashing/index.js'
import { KvIndex, WasmIndex } from '../core/index/index.js'
import { RankTable } from '../core/protocol/index.js'
import type { SnapshotContext } from '../events/index.js'
import { Intake, loadSnapshot, restoreFeed, saveSnapshot, takeSnapshot, ZmqSource } from '../events/index.js'
import { KvEventDecoder } from './wire/kv-event-decoder.js'

const [endpoint, replayEndpoint, path] = process.argv.slice(2) as [string, string, string]
const ranks = new RankTable()
const rank = ranks.intern(1n, 0)
const device = WasmIndex.create({ seedLo: 1, seedHi: 2 })!
const index = new KvIndex({ ranks, device, startMs: 0, seed: 1 })
const options = { decoder: new KvEventDecoder(), sink: index, hasher: createBlockHasher(), blockSize: 4, seed: 1 }
const source = new ZmqSource((wiring) => new Intake({ ...options, ...wiring }), { tickMs: 10, reconnectMs: 10 })
const identity = { workerId: 1n, dpRank: 0, source: endpoint }
const context: SnapshotContext = { intake: source.intake, blocks: index, blockSize: 4, identityOf: () => identity }

const images = await loadSnapshot(path)
let isRestored = false
const feed = source.follow({
  rank,
  dpRank: 0,
  endpoint,
  replayEndpoint,
  *prepare(feed) {
    if (images?.[0]) isRestored = (yield* restoreFeed(context, feed, images[0])) === undefined
  },
})

for (;;) {
  await new Promise((resolve) => setTimeout(resolve, 10)) // its own heartbeat; the test waits for lines, not for time
  if (feed.machine.state === 'live' && feed.machine.lastSequence >= 0) {
    const saved = takeSnapshot(context)
    await saveSnapshot(path, saved)
    const { applied, purges } = feed.machine.counters
    const { lastSequence } = feed.machine
    const held: string[] = []
    for (const { externalHi, externalLo } of device.facts(rank)) {
      held.push(((BigInt(externalHi) << 32n) | BigInt(externalLo)).toString())
    }
    console.log(JSON.stringify({ lastSequence, applied, purges, isRestored, held }))
  }
}
