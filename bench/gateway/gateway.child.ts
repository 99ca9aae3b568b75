/** The gateway as it is served, in a process of its own. `exact` makes tokens, otherwise prompts are compared by bytes. */
import { InProcessRouter } from '../../src/routing/index.js'
import { createGateway, createServiceTokenizer } from '../../src/server/index.js'
import { TokenService } from '../../src/tokens/index.js'
import { tokenizerFolder } from '../tokens/texts.js'
import { reportUse } from './use.js'

const { ports, isExact } = JSON.parse(process.argv[2]!) as { ports: number[]; isExact: boolean }
const router = await InProcessRouter.create({ blockSize: 16, config: { useKvEvents: false } })
const gateway = createGateway({
  listen: { port: 0 },
  models: [
    {
      name: 'm',
      blockSize: 16,
      router,
      tokenizer: isExact ? await qwenTokenizer() : undefined,
      workers: ports.map((port, at) => ({
        id: BigInt(at + 1),
        url: `http://127.0.0.1:${port}`,
        engine: 'vllm' as const,
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
