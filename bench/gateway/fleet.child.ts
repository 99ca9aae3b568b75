/** A router before the engines that it is told, as `serve` assembles it. It speaks when all of them are in. */
import { Assembly } from '../../src/cli/assemble/assembly.js'
import { setCollector } from '../../src/cli/collector.js'
import { defaultRouterConfig } from '../../src/core/protocol/index.js'
import { reportUse } from './use.js'

const { urls } = JSON.parse(process.argv[2]!) as { urls: string[] }
setCollector() // as the command does
const workers = urls.map((url) => ({ url }))
const beganMs = performance.now()
const assembly = new Assembly({ workers, config: defaultRouterConfig, gateway: { listen: { port: 0 } } })
const { port } = await assembly.listen()
if (!(await assembly.until((reports) => reports.every(({ model }) => model === 'sim'), 60_000)))
  throw new Error('not every engine joined')
reportUse(port, { joinedMs: performance.now() - beganMs, joined: assembly.gateway.workers().length })
