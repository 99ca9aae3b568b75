/** `warmroute replay`: a trace through a simulated fleet in virtual time, policy against policy. */
import { readFileSync, writeFileSync } from 'node:fs'
import { basename, resolve } from 'node:path'
import { Command, InvalidArgumentError, Option } from 'commander'
import { WarmrouteError } from '../core/protocol/index.js'
import {
  defaultTransferMsPerToken,
  formatMooncake,
  generateTrace,
  htmlPage,
  isRouterPolicy,
  markdownTable,
  notesOf,
  parseEngineProfile,
  parseSweep,
  policyNames,
  readTrace,
  runExperiment,
  timingProfiles,
  traceShapes,
} from '../sim/index.js'
import type { ExperimentOptions, PolicyName, SlowShare, TimingProfile, Trace, TraceShape } from '../sim/index.js'
import { count, positive, seed, whole, zeroOrMore } from './numbers.js'
import { replayProgress } from './replay-progress.js'
import { proveWritable } from './writable.js'

interface ReplayFlags {
  readonly workers: number
  readonly policy: readonly PolicyName[]
  readonly blockSize: number
  readonly blocks: number
  readonly traceBlockSize?: number
  readonly arrivalSpeedup: number
  readonly smoothMs: number
  readonly eventDelayMs: number
  readonly routers: number
  readonly prefillWorkers: number
  readonly transferMsPerToken: number
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
const generatedMax = 1_000_000 // a few gigabytes

export function replayCommand(): Command {
  return new Command('replay')
    .description('Send a trace through a simulated fleet in virtual time and compare routing policies.')
    .addHelpText('after', '\nExit status: 0 replayed, 1 it could not be, 2 a flag or a file is wrong.')
    .argument('[trace]', 'JSON lines (Mooncake, Dynamo, AIPerf), plain or gzip')
    .option('--workers <n>', 'simulated engines', count, 8)
    .option('--policy <names>', `comma-separated: ${policyNames.join(', ')}`, policies, [
      'warm',
      'dynamo',
      'round-robin',
    ] satisfies PolicyName[])
    .option('--block-size <tokens>', 'tokens per KV block; divides the trace block, or is a multiple of it', count, 64)
    .option('--blocks <n>', 'KV blocks per engine', count, 16_384)
    .option(
      '--trace-block-size <tokens>',
      'tokens that one id of the trace stands for; default: what the trace says, else 512',
      count,
    )
    .option('--arrival-speedup <factor>', 'divides the times of the trace', positive, 1)
    .option(
      '--smooth-ms <ms>',
      'spreads each arrival over this long; 3000 undoes the rounding of Mooncake',
      zeroOrMore,
      0,
    )
    .option('--event-delay-ms <ms>', "from an engine's event to the router's knowledge of it", zeroOrMore, 0)
    .option('--routers <n>', 'router replicas that do not share bookings; late binding is off above 1', count, 1)
    .option('--prefill-workers <n>', 'the first n workers only prefill, the others decode; 0: all do both', whole, 0)
    .option(
      '--transfer-ms-per-token <ms>',
      "a prompt's KV on its way from prefill to decode",
      zeroOrMore,
      defaultTransferMsPerToken,
    )
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
    .option('--seed <n>', 'breaks ties, draws and smooths; the same seed gives the same report', seed, 1)
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
    judgeFlags(path, flags)
    const trace = readRequests(path, flags)
    if (trace.doubt !== undefined) console.error(`warmroute replay: note: ${trace.doubt}`)
    const traceBlockTokens = flags.traceBlockSize ?? trace.blockTokens ?? 512
    const progress = replayProgress(process.stderr)
    const options = { ...toOptions(flags), traceBlockTokens, progress: progress.tell }
    const results = runExperiment(trace.requests, options)
    progress.end()
    const report = { args: { ...argsOf(path, flags), trace_block_size: traceBlockTokens }, results }
    if (flags.json !== undefined) writeFileSync(flags.json, `${JSON.stringify(report, undefined, 1)}\n`)
    if (flags.html !== undefined) writeFileSync(flags.html, htmlPage(results, factsOf(path, flags)))
    if (flags.saveTrace !== undefined) writeFileSync(flags.saveTrace, formatMooncake(trace.requests))
    console.log(markdownTable(results))
    for (const note of [...notesOf(results), ...standStillNotes(flags)])
      console.error(`warmroute replay: note: ${note}`)
  } catch (error) {
    if (!(error instanceof WarmrouteError) && !isFileError(error)) throw error
    console.error(`warmroute replay: ${wordsOf(error)}`)
    process.exitCode = 2
  }
}

/** What can be known to be wrong before anything is read. */
function judgeFlags(path: string | undefined, flags: ReplayFlags): void {
  const files = { '--json': flags.json, '--html': flags.html, '--save-trace': flags.saveTrace }
  const flagOf = new Map<string, string>(path === undefined ? [] : [[resolve(path), 'the trace']])
  for (const [flag, file] of Object.entries(files)) {
    if (file === undefined) continue
    const taken = flagOf.get(resolve(file))
    if (taken !== undefined)
      refuse(`${flag} ${file} would overwrite ${taken === 'the trace' ? taken : `that of ${taken}`}`)
    flagOf.set(resolve(file), flag)
    proveWritable(flag, file)
  }
  if (flags.generate !== undefined && flags.traceBlockSize !== undefined)
    refuse('--trace-block-size is of a trace that is read: the ids of generated ones stand for 512 tokens')
}

/** Policies that a sweep leaves as they are, said once. */
function standStillNotes({ policy, sweep }: ReplayFlags): string[] {
  const still = policy.filter((name) => !isRouterPolicy(name))
  if (sweep === undefined || still.length === 0) return []
  return [`--sweep is of warm and dynamo: ${still.join(', ')} ran once.`]
}

function readRequests(path: string | undefined, flags: ReplayFlags): Trace {
  if (flags.generate !== undefined) {
    if (path !== undefined) refuse('name a trace file or --generate one, not both')
    const { requests: wanted = generatedRequests } = flags
    if (wanted > generatedMax) refuse(`--requests ${wanted}: at most ${generatedMax} are generated`)
    const requests = generateTrace(flags.generate, { requests: wanted, seed: flags.seed })
    return { requests, blockTokens: undefined, doubt: undefined }
  }
  if (path === undefined) refuse(`name a trace file, or --generate one of ${traceShapes.join(', ')}`)
  const trace = readNamed(path, flags.traceBlockSize)
  return flags.requests === undefined ? trace : { ...trace, requests: trace.requests.slice(0, flags.requests) }
}

/** What is wrong with a file is said with its name. */
function readNamed(path: string, traceBlockTokens: number | undefined): Trace {
  try {
    return readTrace(readFileSync(path), traceBlockTokens)
  } catch (cause) {
    if (!(cause instanceof WarmrouteError) && !isFileError(cause)) throw cause
    throw new WarmrouteError('WR_INVALID_ARGUMENT', { reason: `${path}: ${wordsOf(cause)}` }, { cause })
  }
}

function toOptions(flags: ReplayFlags): ExperimentOptions {
  return {
    workers: flags.workers,
    policies: flags.policy,
    blockTokens: flags.blockSize,
    blocks: flags.blocks,
    arrivalSpeedup: flags.arrivalSpeedup,
    smoothMs: flags.smoothMs,
    eventDelayMs: flags.eventDelayMs,
    routers: flags.routers,
    prefillWorkers: flags.prefillWorkers,
    transferMsPerToken: flags.transferMsPerToken,
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
  const known = timingProfiles[name]
  if (known) return known
  try {
    return parseEngineProfile(readFileSync(name, 'utf8'), basename(name))
  } catch (cause) {
    if (!isFileError(cause)) throw cause
    const names = Object.keys(timingProfiles).join(', ')
    const reason = `--engine-profile ${name} is none of ${names}, and no file that can be read: ${cause.message}`
    throw new WarmrouteError('WR_INVALID_ARGUMENT', { reason }, { cause })
  }
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

/** The reason alone: that an argument was wrong, a person sees from it. */
function wordsOf(error: Error): string {
  const reason = error instanceof WarmrouteError ? error.details['reason'] : undefined
  return typeof reason === 'string' ? reason : error.message
}

/** What the system says of a file, and what Node says of one that is too large for it. */
function isFileError(error: unknown): error is Error {
  return error instanceof Error && 'code' in error && ('syscall' in error || error.code === 'ERR_FS_FILE_TOO_LARGE')
}

function refuse(reason: string): never {
  throw new WarmrouteError('WR_INVALID_ARGUMENT', { reason })
}
