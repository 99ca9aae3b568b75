/** `warmroute config`: every setting that holds, and where each came from. */
import { Command } from 'commander'
import { describeOrigin, groups } from '../config/index.js'
import { proveSettings } from './serve-settings.js'
import { listenHost, readSettings } from './settings.js'
import type { Settings } from './settings.js'
import { table } from './table.js'

/** Shown as set or not, never as they are. */
const secrets = new Set(['api_key', 'admin_key', 'engine_api_key', 'hub_token', 'workers'])

export function configCommand(): Command {
  return new Command('config')
    .description('Show the settings that hold, and where each came from: default, file, environment or flag.')
    .option('--config <file>', 'a YAML file with settings (WARMROUTE_CONFIG)')
    .option('--check', 'say only whether serve would take them, with the files that they name', false)
    .option('--changed', 'only what is not a default', false)
    .option('--json', 'print one JSON object', false)
    .allowUnknownOption()
    .allowExcessArguments() // flags of settings and their values

    .addHelpText('after', '\nExit status: 0 the settings are right, 2 they are not.')
    .action(async (flags: ConfigFlags, command: Command) => {
      const settings = await readSettings(command.args, flags.config)
      if (flags.check) await proveSettings(settings)
      for (const line of configReport(settings, flags)) console.log(line)
    })
}

interface ConfigFlags {
  readonly config?: string
  readonly check: boolean
  readonly changed: boolean
  readonly json: boolean
}

export function configReport(settings: Settings, flags: Omit<ConfigFlags, 'config'>): string[] {
  const warnings = settings.warnings.map((warning) => `warning: ${warning}`)
  if (flags.check) return [...warnings, 'The settings are right.']
  const rows = rowsOf(settings).filter(({ origin }) => !flags.changed || origin !== 'default')
  if (flags.json)
    return [
      JSON.stringify(
        rows.map(({ key, value, origin }) => ({ key, value, origin })),
        undefined,
        2,
      ),
    ]
  if (rows.length === 0) return [...warnings, 'Every setting has its default.']
  const cells = rows.map(({ key, text, origin }) => [key, text ?? 'none', origin])
  return [...warnings, ...table(['setting', 'value', 'from'], cells)]
}

interface Row {
  readonly key: string
  /** As it is, for programs; a secret is a sentence. */
  readonly value: unknown
  /** As a person writes it. */
  readonly text: string | undefined
  readonly origin: string
}

function rowsOf(settings: Settings): Row[] {
  const { given, origins, values } = settings
  const host = listenHost(settings)
  return Object.values(groups).flatMap((group) =>
    Object.keys(group.options).map((name) => {
      const short = name.replaceAll(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`)
      const key = `${group.name}.${short}`
      if (key === 'server.host' && host !== values.server.host)
        return { key, value: host, text: host, origin: 'default, since clients need a key' }
      const [value, text] = [given.get(key), shown(short, given.get(key))]
      const isSecret = secrets.has(short) && value !== undefined
      return { key, value: isSecret ? text : (value ?? null), text, origin: describeOrigin(origins.get(key)!) }
    }),
  )
}

function shown(name: string, value: unknown): string | undefined {
  if (value === undefined) return undefined
  if (!secrets.has(name)) return typeof value === 'string' ? value : JSON.stringify(value)
  if (!Array.isArray(value)) return '(set, not shown)'
  const urls = value.map((it: unknown) => (typeof it === 'string' ? it : (it as { url: string }).url))
  return JSON.stringify(urls)
}
