/** `warmroute check`: a doctor for engines. Says of each whether exact routing will work, and what to do where it will not. */
import { Command } from 'commander'
import { WarmrouteError } from '../core/protocol/index.js'
import { proveTokenizers, tokenPlacesOf } from './assemble/token-places.js'
import type { WorkerAddress } from './assemble/worker-keeper.js'
import { examine } from './check/examine.js'
import type { Examination } from './check/finding.js'
import { worst } from './check/finding.js'
import { readWorker, readSettings } from './settings.js'
import { table } from './table.js'

export interface CheckOptions {
  readonly words: readonly string[]
  readonly configPath?: string | undefined
  readonly env?: Readonly<Record<string, string | undefined>>
}

const examinationMs = 120_000

export function checkCommand(): Command {
  return new Command('check')
    .description('Examine engines: will KV routing be exact, and if not, why and what to do.')
    .argument('[addresses...]', 'engines, such as http://gpu1:8000; default: those of the configuration')
    .option('--json', 'print one JSON object', false)
    .option('--config <file>', 'a YAML file with settings (WARMROUTE_CONFIG)')
    .allowUnknownOption()
    .addHelpText(
      'after',
      `
Sends each engine two short completions per rank and three short chats, and listens to its events meanwhile.

  --engine-api-key <key>    the engines' own key
  --tokenizer <folder>      the folder with the model's tokenizer.json
  --hub-cache <folder>      where Hugging Face tools keep models on this machine

Exit status: 0 all pass or only warnings, 1 at least one check failed, 2 the settings are wrong.`,
    )
    .action(
      async (_: readonly string[], flags: { readonly json: boolean; readonly config?: string }, command: Command) => {
        const examinations = await check({ words: command.args, configPath: flags.config })
        const verdict = worst(examinations.map((it) => it.verdict))
        if (flags.json) console.log(JSON.stringify({ verdict, workers: examinations }, undefined, 2))
        else for (const line of checkReport(examinations, process.stdout.columns)) console.log(line)
        if (verdict === 'fail') process.exitCode = 1
      },
    )
}

/** Workers are examined one after the other: each listens to events, and another's requests would be noise. */
export async function check(options: CheckOptions): Promise<Examination[]> {
  const { values, rest } = await readSettings(options.words, options.configPath, options.env)
  const { workers, engineApiKey } = values.serve
  const named: WorkerAddress[] = rest.map(readWorker)
  const addresses = (named.length > 0 ? named : workers).map((it) => ({ ...it, apiKey: it.apiKey ?? engineApiKey }))
  if (addresses.length === 0)
    throw new WarmrouteError('WR_INVALID_CONFIG', { reason: 'no engines: name at least one, such as http://gpu1:8000' })
  const tokenPlaces = tokenPlacesOf(values.serve, options.env)
  await proveTokenizers(tokenPlaces)
  const examinations: Examination[] = []
  for (const address of addresses)
    examinations.push(await examine(address, { tokenPlaces, signal: AbortSignal.timeout(examinationMs) }))
  return examinations
}

/** `columns`: how wide the terminal is, where there is one. */
export function checkReport(examinations: readonly Examination[], columns?: number): string[] {
  return examinations.flatMap(({ url, engine, model, verdict, findings }) => {
    const rows = findings.map((it) => [
      it.verdict,
      it.rank === undefined ? it.check : `${it.check} (rank ${it.rank})`,
      it.reason,
    ])
    const fixes = findings.flatMap(({ check: name, verdict: how, fix }) =>
      fix === undefined || how === 'pass' ? [] : [`  to cure "${name}": ${fix}`],
    )
    const end = {
      pass: 'Exact routing will work.',
      warn: 'It will work, with the warnings above.',
      fail: 'Not exact as it is.',
    }
    return [
      [url, engine, model].filter(Boolean).join('  '),
      ...table(['', 'check', 'what was found'], rows, columns === undefined ? undefined : columns - 2).map(
        (line) => `  ${line}`,
      ),
      ...new Set(fixes), // one cure may help against several
      `  ${end[verdict]}`,
      '',
    ]
  })
}
