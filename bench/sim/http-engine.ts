/** The engine process of `http.bench.ts`: tells its address, then its CPU time whenever it is asked. */
import { startSimEngine } from '../../src/sim/index.js'

const engine = await startSimEngine({ engine: 'vllm', speedup: 1000 })
process.on('message', () => {
  const { user, system } = process.cpuUsage()
  process.send?.({ cpuMs: (user + system) / 1000, requests: engine.stats().requests })
})
process.send?.({ url: engine.url })
