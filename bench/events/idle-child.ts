/** Follows one silent publisher many times over and prints what that costs. Its own process: sockets belong to main threads. */
import { setTimeout as pause } from 'node:timers/promises'
import { Publisher } from 'zeromq'
import { createBlockHasher } from '../../src/core/hashing/index.js'
import { KvEventDecoder } from '../../src/engines/index.js'
import { Intake, ZmqSource } from '../../src/events/index.js'

const [count, milliseconds] = process.argv.slice(2).map(Number) as [number, number]
const publisher = new Publisher({ linger: 0 })
await publisher.bind('tcp://127.0.0.1:*')
const source = new ZmqSource(
  (wiring) =>
    new Intake({
      decoder: new KvEventDecoder(),
      sink: { apply: () => undefined },
      hasher: createBlockHasher(),
      blockSize: 16,
      seed: 1,
      ...wiring,
    }),
)
const feeds = Array.from({ length: count }, (_, rank) =>
  source.follow({ rank, dpRank: 0, endpoint: publisher.lastEndpoint! }),
)
while (feeds.some((feed) => feed.machine.state !== 'live')) await pause(5)
await pause(milliseconds / 4)
const started = process.cpuUsage()
await pause(milliseconds)
const used = process.cpuUsage(started)
console.log((used.user + used.system) / (10 * milliseconds))
await source.close()
publisher.close()
