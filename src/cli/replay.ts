/** `warmroute replay`: a trace through a simulated fleet in virtual time, policy against policy. */
import { readFileSync, writeFileSync } from 'node:fs'
import { basename } from 'node:path'
import { Command, InvalidArgumentError, Option } from 'commander'
import { WarmrouteError } from '../core/protocol/index.js'
import {
  formatMooncake,
  generateTrace,
  htmlPage,
  markdownTable,
  parseEngineProfile,
  parseSweep,
  policyNames,
  readTrace,
  runExperiment,
  timingProfiles,
  traceShapes,
} from '../sim/index.js'
import type { ExperimentOptions, PolicyName, SlowShare, TimingProfile, TraceRequest, TraceShape } from '../sim/index.js'
import { count, positive, whole, zeroOrMore } from './numbers.js'
import { replayProgress } from './replay-progress.js'

interface ReplayFlags {
  readonly workers: number
  readonly policy: readonly PolicyName[]
  readonly blockSize: number
  readonly blocks: number
  readonly traceBlockSize: number
  readonly arrivalSpeedup: number
  readonly smoothMs: number
  readonly eventDelayMs: number
  readonly routers: number
  readonly engineProfile: string
  readonly slow?: SlowShare
  readonly set: readonly string[]
  readonly sweep?: string
  readonly seed: number
  readonly requests?: number
  readonly generate?: TraceShape
  readonly ideal: boolean
  readonly json?: string
  readonly html?: string
  readonly saveTrace?: string
}

const generatedRequests = 2000

export function replayCommand(): Command {
  return new Command('replay')
    .description('Send a trace through a simulated fleet in virtual time and compare routing policies.')
    .argument('[trace]', 'JSON lines (Mooncake, Dynamo, AIPerf), plain or gzip')
    .option('--workers <n>', 'simulated engines', count, 8)
    .option('--policy <names>', `comma-separated: ${policyNames.join(', ')}`, policies, [
      'warm',
      'dynamo',
      'round-robin',
    ] satisfies PolicyName[])
    .option('--block-size <tokens>', 'tokens per KV block; divides the trace block', count, 64)
    .option('--blocks <n>', 'KV blocks per engine', count, 16_384)
    .option('--trace-block-size <tokens>', 'tokens that one id of the trace stands for', count, 512)
    .option('--arrival-speedup <factor>', 'divides the times of the trace', positive, 1)
    .option(
      '--smooth-ms <ms>',
      'spreads each arrival over this long; 3000 undoes the rounding of Mooncake',
      zeroOrMore,
      0,
    )
    .option('--event-delay-ms <ms>', "from an engine's event to the router's knowledge of it", zeroOrMore, 0)
    .option('--routers <n>', 'router replicas that do not share bookings; late binding is off above 1', count, 1)
    .option(
      '--engine-profile <name or file>',
      `step times: ${Object.keys(timingProfiles).join(', ')}, or a file of \`warmroute profile\` or of measured points`,
      'dynamo',
    )
    .option(
      '--slow <share x factor>',
      'part of the fleet is slower: 0.5x2 makes the first half take twice as long',
      slow,
    )
    .option('--set <key=value>', 'a setting of the router by its name in the config file; may repeat', collect, [])
    .option('--sweep <key=from:to:step>', 'run warm and dynamo once per value')
    .option('--seed <n>', 'breaks ties, draws and smooths; the same seed gives the same report', whole, 1)
    .option('--requests <n>', `take only the first n; how many to generate (${generatedRequests})`, count)
    .addOption(new Option('--generate <shape>', 'make a trace instead of reading one, by --seed').choices(traceShapes))
    .option('--ideal', 'add the floor: unlimited shared cache, no queue', false)
    .option('--json <file>', 'write the report')
    .option('--html <file>', 'write one page with plots that needs nothing from outside')
    .option('--save-trace <file>', 'write the requests that were replayed, before smoothing, as JSON lines')
    .action(runReplay)
}

function runReplay(path: string | undefined, flags: ReplayFlags): void {
  try {
    const trace = readRequests(path, flags)
    const progress = replayProgress(process.stderr)
    const results = runExperiment(trace, { ...toOptions(flags), progress: progress.tell })
    progress.end()
    const report = { args: argsOf(path, flags), results }
    if (flags.json !== undefined) writeFileSync(flags.json, `${JSON.stringify(report, undefined, 1)}\n`)
    if (flags.html !== undefined) writeFileSync(flags.html, htmlPage(results, factsOf(path, flags)))
    if (flags.saveTrace !== undefined) writeFileSync(flags.saveTrace, formatMooncake(trace))
    console.log(markdownTable(results))
  } catch (error) {
    if (!(error instanceof WarmrouteError) && !isFileError(error)) throw error
    console.error(`warmroute replay: ${error.message}`)
    process.exitCode = 2
  }
}

function readRequests(path: string | undefined, flags: ReplayFlags): TraceRequest[] {
  if (flags.generate !== undefined) {
    if (path !== undefined) refuse('name a trace file or --generate one, not both')
    return generateTrace(flags.generate, { requests: flags.requests ?? generatedRequests, seed: flags.seed })
  }
  if (path === undefined) refuse(`name a trace file, or --generate one of ${traceShapes.join(', ')}`)
  const trace = readTrace(readFileSync(path))
  return flags.requests === undefined ? trace : trace.slice(0, flags.requests)
}

function toOptions(flags: ReplayFlags): ExperimentOptions {
  return {
    workers: flags.workers,
    policies: flags.policy,
    blockTokens: flags.blockSize,
    blocks: flags.blocks,
    traceBlockTokens: flags.traceBlockSize,
    arrivalSpeedup: flags.arrivalSpeedup,
    smoothMs: flags.smoothMs,
    eventDelayMs: flags.eventDelayMs,
    routers: flags.routers,
    profile: readProfile(flags.engineProfile),
    ...(flags.slow === undefined ? {} : { slow: flags.slow }),
    settings: flags.set,
    ...(flags.sweep === undefined ? {} : { sweep: parseSweep(flags.sweep) }),
    seed: flags.seed,
    isIdealWanted: flags.ideal,
  }
}

/** What was asked for, in the flags' own names; files that were written are no part of it. */
function argsOf(trace: string | undefined, flags: ReplayFlags): Record<string, unknown> {
  const { json: _, html: __, saveTrace: ___, ...asked } = flags
  const named = Object.entries(asked).map(([name, value]) => [
    name.replaceAll(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`),
    value,
  ])
  return { trace, ...Object.fromEntries(named) } as Record<string, unknown>
}

/** Heading and command of the page; the command as a shell takes it. */
function factsOf(path: string | undefined, flags: ReplayFlags): { title: string; command: string } {
  const source = path === undefined ? `generated ${flags.generate}` : basename(path)
  const pace = flags.arrivalSpeedup === 1 ? '' : `, arrivals x${flags.arrivalSpeedup}`
  const words = process.argv
    .slice(2)
    .map((word) => (/^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", `'\\''`)}'`))
  return { title: `${source} over ${flags.workers} workers${pace}`, command: `warmroute ${words.join(' ')}` }
}

function readProfile(name: string): TimingProfile {
  return timingProfiles[name] ?? parseEngineProfile(readFileSync(name, 'utf8'), basename(name))
}

function policies(text: string): PolicyName[] {
  return text.split(',').map((word) => {
    const name = policyNames.find((known) => known === word.trim())
    if (!name) throw new InvalidArgumentError(`"${word}" is none of ${policyNames.join(', ')}`)
    return name
  })
}

function slow(text: string): SlowShare {
  const match = /^(\d*\.?\d+)x(\d*\.?\d+)$/.exec(text)
  const share = Number(match?.[1])
  const factor = Number(match?.[2])
  if (!(share >= 0 && share <= 1 && factor > 0)) throw new InvalidArgumentError('expected a share and a factor: 0.5x2')
  return { share, factor }
}

function collect(text: string, before: readonly string[]): string[] {
  return [...before, text]
}

function isFileError(error: unknown): error is Error {
  return error instanceof Error && 'code' in error && 'syscall' in error
}

function refuse(reason: string): never {
  throw new WarmrouteError('WR_INVALID_ARGUMENT', { reason })
}
