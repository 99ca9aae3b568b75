/** `warmroute profile`: fits an engine's step times from a few minutes of measuring it, for `replay`, `sim` and `serve`. */
import { writeFileSync } from 'node:fs'
import { Command } from 'commander'
import { WarmrouteError } from '../core/protocol/index.js'
import { detectEngine, HttpProbe } from '../engines/index.js'
import { fitProfile, formatEngineProfile } from '../sim/index.js'
import type { FittedProfile, StepPoints } from '../sim/index.js'
import { count, positive } from './numbers.js'
import { askModel, createEngineProbe } from './profile/engine-probe.js'
import { measureSteps } from './profile/measure.js'
import { readAddress } from './settings.js'
import { proveWritable } from './writable.js'

export interface ProfileOptions {
  readonly seconds: number
  readonly model?: string
  readonly name?: string
  readonly apiKey?: string
  readonly maxContext: number
  /** Undefined: what the engine says, else 8192. */
  readonly chunkTokens?: number
  readonly tell?: (text: string) => void
  readonly signal?: AbortSignal
}

interface ProfileFlags extends ProfileOptions {
  readonly out?: string
}

/** Where neither the engine nor the operator says it: vLLM's own choice on large GPUs. */
const chunkTokensGuess = 8192

/** Beyond a fit that is this far off on its own points, nothing should be decided by it. */
const errorMax = 0.25

export function profileCommand(): Command {
  return new Command('profile')
    .description('Measure an engine for a few minutes and fit its step times.')
    .addHelpText(
      'after',
      '\nExit status: 0 the profile is written, 1 the engine does not answer or the fit cannot be relied on, 2 a flag is wrong.',
    )
    .argument('<address>', 'an engine that nobody else uses meanwhile, such as http://gpu1:8000')
    .option('--seconds <n>', 'how long to measure', positive, 120)
    .option('--out <file>', 'where to write the profile; default: standard output')
    .option('--model <name>', 'which model; default: the first that the engine serves')
    .option('--name <name>', "the profile's name; default: the model's")
    .option('--api-key <key>', "the engine's own key (WARMROUTE_ENGINE_API_KEY)")
    .option('--max-context <tokens>', 'longest prompt to try', count, 41_000)
    .option(
      '--chunk-tokens <n>',
      'tokens that the engine computes in one pass (max_num_batched_tokens); default: what it says, else 8192',
      count,
    )
    .action(async (address: string, flags: ProfileFlags) => {
      proveWritable('--out', flags.out)
      const isShown = process.stderr.isTTY
      const tell = (text: string): void => void process.stderr.write(`\r${text}\x1b[K`)
      const made = await profileEngine(address, { ...flags, ...(isShown ? { tell } : {}) })
      if (isShown) process.stderr.write('\r\x1b[K')
      for (const line of made.lines) console.error(line)
      if (flags.out === undefined) process.stdout.write(made.text)
      else writeFileSync(flags.out, made.text)
      if (!made.isUsable) process.exitCode = 1
    })
}

/** The profile as a file's text, and what a person should know of it. */
export async function profileEngine(
  address: string,
  options: ProfileOptions,
): Promise<{ readonly text: string; readonly lines: readonly string[]; readonly isUsable: boolean }> {
  const url = readAddress(address)
  const { seconds, signal = new AbortController().signal } = options
  const apiKey = options.apiKey ?? process.env['WARMROUTE_ENGINE_API_KEY']
  const served = await askModel(url, apiKey, signal)
  const model = options.model ?? served.name
  const contextMax = Math.min(options.maxContext, served.contextMax ?? options.maxContext)
  const { batchTokensMax, usableBlocks, blockSize, generates } = await detectEngine(
    new HttpProbe({ baseUrl: url, apiKey, signal }),
  )
  if (generates?.value === false)
    throw new WarmrouteError('WR_INVALID_ARGUMENT', {
      reason: `${model} answers with numbers and has no steps to measure; a request for text could end the engine`,
    })
  const chunkTokens = options.chunkTokens ?? batchTokensMax?.value ?? chunkTokensGuess
  const probe = createEngineProbe({ url, apiKey, model, signal, answerTimeoutMs: 1000 * Math.max(60, seconds) })
  const points = await measureSteps(probe, {
    seconds,
    contextMax,
    capacityTokens: usableBlocks && blockSize ? usableBlocks.value * blockSize.value : undefined,
    random: Math.random,
    ...(options.tell ? { tell: options.tell } : {}),
  })
  if (points.prefill.length < 4 || points.decode.length < 3)
    throw new WarmrouteError('WR_INVALID_ARGUMENT', {
      reason: `only ${points.prefill.length} prefills and ${points.decode.length} decode steps could be measured in ${seconds} s with contexts up to ${contextMax}: give it more with --seconds or --max-context`,
    })
  const fitted = fitProfile(points, options.name ?? model, chunkTokens)
  const { profile, prefillError, decodeError } = fitted
  const measured = {
    engine_model: model,
    seconds,
    chunk_tokens: chunkTokens,
    prefill_points: points.prefill.length,
    decode_points: points.decode.length,
    prefill_error: Number(prefillError.toFixed(3)),
    decode_error: Number(decodeError.toFixed(3)),
  }
  const isUsable = prefillError <= errorMax && decodeError <= errorMax
  const isGuess = options.chunkTokens === undefined && batchTokensMax === undefined
  const lines = [
    ...linesOf(fitted, points),
    ...(points.unknownPrefixes > 0
      ? [
          `note: ${points.unknownPrefixes} prompts behind a prefix were left out: neither the answers (vLLM: --enable-prompt-tokens-details) nor /metrics say what was cached.`,
        ]
      : []),
    ...(isGuess
      ? [
          `note: the engine does not say how many tokens it computes in one pass; ${chunkTokens} is a guess (--chunk-tokens).`,
        ]
      : []),
    ...(isUsable
      ? []
      : [
          `warning: more than ${percent(errorMax)} off. Measure longer (--seconds), and while nobody else uses the engine.`,
        ]),
  ]
  return { text: formatEngineProfile(profile, { measured }), lines, isUsable }
}

function linesOf(fitted: FittedProfile, points: StepPoints): string[] {
  const { profile, prefillError, decodeError, prefillWorst, decodeWorst } = fitted
  const { prefill, decode } = profile
  const off = (error: number, count: number): string => `${percent(error)} off on ${count} points`
  return [
    `prefill ms = ${short(prefill.constant)} + ${short(prefill.perNew)} new + ${short(prefill.perNewSquared)} new² + ${short(prefill.perNewTimesPrefix)} new x prefix (${off(prefillError, points.prefill.length)})`,
    `  farthest off: ${percent(prefillWorst.error)} for ${prefillWorst.newTokens} new behind ${prefillWorst.prefixTokens}, measured ${prefillWorst.ms.toFixed(1)} ms`,
    `decode ms = ${short(decode.constant)} + ${short(decode.perRequest)} requests + ${short(decode.perContextToken)} context tokens (${off(decodeError, points.decode.length)})`,
    `  farthest off: ${percent(decodeWorst.error)} for ${decodeWorst.batch} requests of ${decodeWorst.context}, measured ${decodeWorst.ms.toFixed(1)} ms`,
  ]
}

function short(value: number): string {
  return value === 0 ? '0' : value.toPrecision(3)
}

function percent(share: number): string {
  return `${(share * 100).toFixed(0)} %`
}
