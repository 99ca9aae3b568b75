/**
 * The gateway as it is served, in a process of its own. `isExact` makes tokens, otherwise prompts are compared by bytes;
 * `isPaired` makes the first half of the engines prefill workers.
 */
import { letHeapGrow } from '../../src/cli/collector.js'
import { InProcessRouter } from '../../src/routing/index.js'
import { createGateway, createServiceTokenizer } from '../../src/server/index.js'
import { TokenService } from '../../src/tokens/index.js'
import { tokenizerFolder } from '../tokens/texts.js'
import { reportUse } from './use.js'

const { ports, isExact, isPaired } = JSON.parse(process.argv[2]!) as {
  ports: number[]
  isExact: boolean
  isPaired?: boolean
}
letHeapGrow() // as the command does
const newRouter = (): Promise<InProcessRouter> =>
  InProcessRouter.create({ blockSize: 16, config: { useKvEvents: false } })
const router = await newRouter()
const gateway = createGateway({
  listen: { port: 0 },
  models: [
    {
      name: 'm',
      blockSize: 16,
      router,
      ...(isPaired ? { disagg: { enforce: true, openPrefill: newRouter } } : {}),
      tokenizer: isExact ? await qwenTokenizer() : undefined,
      workers: ports.map((port, at) => ({
        id: BigInt(at + 1),
        url: `http://127.0.0.1:${port}`,
        engine: 'vllm' as const,
        ...(isPaired ? { role: at < ports.length / 2 ? ('prefill' as const) : ('decode' as const) } : {}),
      })),
    },
  ],
})
const { port } = await gateway.listen()
reportUse(port)

async function qwenTokenizer() {
  const service = new TokenService({ threads: 1 })
  const status = await service.setModel('m', { path: tokenizerFolder('qwen3') })
  if (status.encoder !== 'own') throw new Error(`no exact tokenizer: ${status.reason}`)
  return createServiceTokenizer(service, { model: 'm' })
}
