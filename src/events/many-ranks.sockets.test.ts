// Goal: one process can follow a large fleet. At libzmq's own limit of sockets it would end with the 341st rank.
import { expect, it } from 'vitest'
import { NaiveSink } from '../../test/naive-sink.js'
import { createBlockHasher } from '../core/hashing/index.js'
import { PlainDecoder } from './fill-batch.case.js'
import { Intake } from './intake.js'
import { ZmqSource } from './zmq-source.js'

it('follows a thousand ranks', async () => {
  const common = { decoder: new PlainDecoder(), sink: new NaiveSink(), hasher: createBlockHasher() }
  const source = new ZmqSource((wiring) => new Intake({ ...common, blockSize: 2, seed: 1, ...wiring }))
  const endpoint = 'tcp://127.0.0.1:9' // nobody is there, which is no error: an engine may come up later
  for (let rank = 0; rank < 1000; rank++) source.follow({ rank, dpRank: 0, endpoint })
  expect([...source.intake.feeds()]).toHaveLength(1000)
  await source.close()
})
