/**
 * The gateway of a benchmark. `isExact` makes tokens, otherwise prompts are compared by bytes;
 * `isPaired` makes the first half of the engines prefill workers. `loopsFolder` is that of a second model, `loops`; with it a second
 * gateway of the same models checks bodies as upstream does. `askedUrls` are engines by the names of more models, which have no tokenizer's
 * files: they are asked for tokens.
 */
import { setCollector } from '../../src/cli/collector.js'
import { InProcessRouter } from '../../src/routing/index.js'
import { createGateway, createServiceTokenizer } from '../../src/server/index.js'
import { TokenService } from '../../src/tokens/index.js'
import { tokenizerFolder } from '../tokens/texts.js'
import { reportUse } from './use.js'

const {
  ports,
  isExact,
  isPaired,
  loopsFolder,
  askedUrls = {},
} = JSON.parse(process.argv[2]!) as {
  ports: number[]
  isExact: boolean
  isPaired?: boolean
  loopsFolder?: string
  askedUrls?: Readonly<Record<string, string>>
}
setCollector() // as the command does
const services: TokenService[] = []
const tokenizer = isExact ? await tokenizerOf(tokenizerFolder('qwen3')) : undefined
const loops = loopsFolder === undefined ? undefined : await tokenizerOf(loopsFolder)
const asked = await Promise.all(Object.entries(askedUrls).map(([name, url]) => tokenizerAt(name, url)))
const { port } = await listen('off')
if (loops) reportUse(port, { strictPort: (await listen('dynamo')).port }, prompts)
else reportUse(port, {}, prompts)

async function listen(strict: 'off' | 'dynamo') {
  const models = [await modelOf('m', tokenizer, 1)]
  if (loops) models.push(await modelOf('loops', loops, 1 + ports.length))
  for (const [index, it] of asked.entries())
    models.push(await modelOf(it.name, it.tokenizer, 1 + (index + 2) * ports.length))
  return createGateway({ listen: { port: 0 }, strict, models }).listen()
}

async function modelOf(name: string, encoder: typeof tokenizer, firstId: number) {
  return {
    name,
    blockSize: 16,
    router: await newRouter(),
    ...(isPaired ? { disagg: { enforce: true, openPrefill: newRouter } } : {}),
    tokenizer: encoder,
    workers: ports.map((at, index) => ({
      id: BigInt(firstId + index),
      url: `http://127.0.0.1:${at}`,
      // What hostile bodies hold is looked at more closely where one of the engines would end by it.
      engine: loops && index === ports.length - 1 ? ('sglang' as const) : ('vllm' as const),
      ...(isPaired ? { role: index < ports.length / 2 ? ('prefill' as const) : ('decode' as const) } : {}),
    })),
  }
}

function newRouter(): Promise<InProcessRouter> {
  return InProcessRouter.create({ blockSize: 16, config: { useKvEvents: false } })
}

async function tokenizerOf(path: string) {
  const service = new TokenService({ threads: 1 })
  services.push(service)
  const status = await service.setModel('m', { path })
  if (status.encoder !== 'own') throw new Error(`no exact tokenizer: ${status.reason}`)
  return createServiceTokenizer(service, { model: 'm' })
}

async function tokenizerAt(name: string, url: string) {
  const service = new TokenService({ threads: 1 })
  services.push(service)
  const status = await service.setModel(name, { engine: { url, dialect: name === 'sglang' ? 'sglang' : 'vllm' } })
  if (status.source !== 'engine') throw new Error(`no engine is asked: ${status.reason}`)
  return { name, tokenizer: createServiceTokenizer(service, { model: name }) }
}

function prompts(): Record<string, number> {
  const sums: Record<string, number> = {}
  for (const { counts } of services)
    for (const { tokenized, loadOnly } of Object.values(counts.prompts))
      for (const [what, count] of Object.entries({ ...tokenized, ...loadOnly })) sums[what] = (sums[what] ?? 0) + count
  return sums
}
