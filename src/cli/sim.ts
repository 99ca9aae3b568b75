/** `warmroute sim`: simulated vLLM or SGLang servers to point any router at. Runs until it is told to stop. */
import { readFileSync } from 'node:fs'
import { basename } from 'node:path'
import { Command, Option } from 'commander'
import { WarmrouteError } from '../core/protocol/index.js'
import {
  loadTokenizer,
  pairKinds,
  parseEngineProfile,
  parseFaults,
  simTasks,
  startSimEngine,
  timingProfiles,
} from '../sim/index.js'
import type { Fault, PairKind, SimEngine, SimEngineOptions, SimTask, TimingProfile } from '../sim/index.js'
import { count, port, positive, whole } from './numbers.js'
import { stopSignal } from './stop-signal.js'

interface SimFlags {
  readonly engine: 'vllm' | 'sglang'
  readonly engineVersion?: string
  readonly workers: number
  readonly ranks: number
  readonly host: string
  readonly port: number
  readonly eventPort: number
  readonly model: readonly string[]
  readonly adapter: readonly string[]
  readonly task: SimTask
  readonly blockSize?: number
  readonly blocks: number
  readonly hostBlocks: number
  readonly maxModelLen: number
  readonly speedup: number
  readonly profile: string
  readonly tokenizer?: string
  readonly faults?: string
  readonly seed: number
  readonly devMode: boolean
  readonly scaleOut: boolean
  readonly tokenizerInfo: boolean
  readonly events: boolean
  readonly pair?: PairKind
  readonly pairPort: number
}

export function simCommand(): Command {
  return new Command('sim')
    .description('Start simulated engines with real sockets: OpenAI routes, /metrics, KV events over ZeroMQ.')
    .addHelpText('after', '\nExit status: 0 ended by a signal, 1 could not start, 2 a flag is wrong.')
    .addOption(new Option('--engine <name>', 'which engine to play').choices(['vllm', 'sglang']).default('vllm'))
    .option('--engine-version <version>', 'whose event dialect to speak; default: the newest that was recorded')
    .option('--workers <n>', 'how many engines', count, 1)
    .option('--ranks <n>', 'data-parallel ranks of each', count, 1)
    .option('--host <address>', 'where to listen', '127.0.0.1')
    .option('--port <port>', 'HTTP port of the first engine, the next ones follow; 0 takes free ports', port, 0)
    .option(
      '--event-port <port>',
      'event port of the first rank; replay ports are 1000 above; 0 takes free ports',
      port,
      0,
    )
    .option('--model <name...>', 'served names', ['sim'])
    .option('--adapter <name...>', 'LoRA adapters, served as models of their own', [])
    .addOption(
      new Option('--task <name>', 'what the model is for; one that does not generate answers with numbers')
        .choices([...simTasks])
        .default('generate'),
    )
    .option('--block-size <tokens>', 'tokens per KV block; default 16 (vllm) or 64 (sglang)', count)
    .option('--blocks <n>', 'KV blocks per rank', count, 16_384)
    .option('--host-blocks <n>', 'blocks of the host tier per rank; 0 has none', whole, 0)
    .option('--max-model-len <tokens>', 'longest context', count, 131_072)
    .option('--speedup <factor>', 'divides every step time', positive, 1)
    .option(
      '--profile <name or file>',
      `step times: ${Object.keys(timingProfiles).join(', ')}, or a file of \`warmroute profile\` or of measured points`,
      'dynamo',
    )
    .option('--tokenizer <folder>', 'a folder with tokenizer.json; default: a built-in one that needs no files')
    .option('--faults <file>', 'fault script, as JSON; the same can be posted to /sim/faults')
    .option('--seed <n>', 'seeds faults and request ids', whole, 1)
    .option('--dev-mode', 'serve the development routes of vLLM (cache reset, server info)', false)
    .option('--scale-out', 'serve the rendering and token routes of vLLM', false)
    .option('--tokenizer-info', 'tell the chat template and the added tokens, as vLLM can', false)
    .option('--no-events', 'publish no KV events')
    .addOption(
      new Option(
        '--pair <kind>',
        'half of a disaggregated pair: a connector (vllm, both halves), or prefill or decode (sglang)',
      ).choices([...pairKinds]),
    )
    .option('--pair-port <port>', 'side channel or bootstrap port of the first engine; 0 takes free ports', port, 0)
    .action(runSim)
}

async function runSim(flags: SimFlags): Promise<void> {
  judge(flags)
  const engines: SimEngine[] = []
  try {
    for (let worker = 0; worker < flags.workers; worker++) {
      const engine = await startSimEngine(toOptions(flags, worker))
      engines.push(engine)
      console.log(`${flags.engine} ${worker}: ${placesOf(engine)}`)
    }
    console.log('ready')
    await stopSignal()
  } finally {
    await Promise.all(engines.map((engine) => engine.close()))
  }
}

/** What each flag alone cannot know. Throws `WR_INVALID_ARGUMENT`. */
function judge({ engine, pair, port, eventPort, pairPort, workers, ranks, events }: SimFlags): void {
  const refuse = (reason: string): never => {
    throw new WarmrouteError('WR_INVALID_ARGUMENT', { reason })
  }
  if (pair !== undefined && (pair === 'prefill' || pair === 'decode') !== (engine === 'sglang'))
    refuse(`--pair ${pair} is none of ${engine}: prefill and decode are SGLang's, connectors are vLLM's`)
  const last = { '--port': port && port + workers - 1, '--pair-port': pairPort && pairPort + workers - 1 }
  const lastReplay = events && eventPort ? eventPort + 1000 + workers * ranks - 1 : 0
  for (const [flag, it] of Object.entries({ ...last, '--event-port': lastReplay }))
    if (it > 65_535) refuse(`${flag}: the last engine would need port ${it}, and there is none above 65535`)
}

function placesOf({ url, eventPorts, replayPorts, pairPort }: SimEngine): string {
  const events =
    eventPorts.length === 0 ? 'no events' : `events ${eventPorts.join(',')} replay ${replayPorts.join(',')}`
  return `${url} ${events}${pairPort === 0 ? '' : ` pair ${pairPort}`}`
}

function toOptions(flags: SimFlags, worker: number): SimEngineOptions {
  const eventPort = flags.eventPort === 0 ? 0 : flags.eventPort + worker * flags.ranks
  return {
    engine: flags.engine,
    ...(flags.engineVersion === undefined ? {} : { version: flags.engineVersion }),
    host: flags.host,
    port: flags.port === 0 ? 0 : flags.port + worker,
    models: flags.model,
    adapters: flags.adapter,
    task: flags.task,
    ranks: flags.ranks,
    ...(flags.blockSize === undefined ? {} : { blockTokens: flags.blockSize }),
    blocks: flags.blocks,
    hostBlocks: flags.hostBlocks,
    modelTokensMax: flags.maxModelLen,
    speedup: flags.speedup,
    profile: readProfile(flags.profile),
    ...(flags.tokenizer === undefined ? {} : { tokenizer: loadTokenizer(flags.tokenizer), root: flags.tokenizer }),
    faults: flags.faults === undefined ? [] : readFaults(flags.faults),
    seed: flags.seed + worker,
    worker,
    ...(flags.pair === undefined
      ? {}
      : { pair: { kind: flags.pair, port: flags.pairPort === 0 ? 0 : flags.pairPort + worker } }),
    isDevMode: flags.devMode,
    isScaleOut: flags.scaleOut,
    isTokenizerInfo: flags.tokenizerInfo,
    events: flags.events ? { port: eventPort, replayPort: eventPort === 0 ? 0 : eventPort + 1000 } : false,
  }
}

function readFaults(path: string): Fault[] {
  const text = readFileSync(path, 'utf8')
  try {
    return parseFaults(JSON.parse(text))
  } catch (cause) {
    if (!(cause instanceof SyntaxError)) throw cause
    throw new WarmrouteError('WR_INVALID_ARGUMENT', { reason: `--faults ${path}: ${cause.message}` }, { cause })
  }
}

function readProfile(name: string): TimingProfile {
  return timingProfiles[name] ?? parseEngineProfile(readFileSync(name, 'utf8'), basename(name))
}
