/** The gateway as it is served, in a process of its own. `approx` compares prompts by bytes, `exact` by tokens. */
import { createGateway, createPolicyRouter } from '../../src/server/index.js'
import { reportUse } from './use.js'

const ports = JSON.parse(process.argv[2]!) as number[]
const gateway = createGateway({
  listen: { port: 0 },
  models: [
    {
      name: 'm',
      blockSize: 16,
      router: createPolicyRouter({ policy: 'round-robin' }),
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
