/** Many simulated engines in one process, half of them vLLM and half SGLang, without events. */
import { startSimEngine } from '../../src/sim/index.js'

const { count } = JSON.parse(process.argv[2]!) as { count: number }
const urls: string[] = []
for (let worker = 0; worker < count; worker++) {
  const engine = worker % 2 === 0 ? 'vllm' : 'sglang'
  const options = { engine, worker, blockTokens: 16, speedup: 1, events: false, healthMs: 0, models: ['sim'] } as const
  urls.push((await startSimEngine(options)).url)
}
process.on('disconnect', () => process.exit())
process.send!({ urls })
