/** The effective settings of a command: file, environment and flags, read once, the same way for every command. */
import type { LoadedConfig } from '../config/index.js'
import { addressTrouble, describeOrigin, engineAddress, groups, loadConfig, readConfigFile } from '../config/index.js'
import { WarmrouteError } from '../core/protocol/index.js'
import type { WorkerRole } from '../server/index.js'
import { workerRoles } from '../server/index.js'

export type Settings = LoadedConfig<typeof groups>

/** `words` are the flags and addresses that commander left alone. Throws `WR_INVALID_CONFIG` with everything that is wrong. */
export async function readSettings(
  words: readonly string[],
  configPath: string | undefined,
  env: Readonly<Record<string, string | undefined>> = process.env,
): Promise<Settings> {
  const path = configPath ?? env['WARMROUTE_CONFIG']
  const file = path === undefined ? undefined : await readConfigFile(path)
  const settings = loadConfig(groups, { file, env, flags: words })
  if (settings.values.routing.useRemoteIndexer) {
    const origin = describeOrigin(settings.origins.get('routing.use_remote_indexer')!)
    const reason = `${origin}: use_remote_indexer needs an index service, and warmroute serve keeps its own index`
    throw new WarmrouteError('WR_INVALID_CONFIG', { reason })
  }
  return settings
}

/** Where it listens: where it was told to, else everywhere if clients need a key, else on this machine. */
export function listenHost({ values, origins }: Pick<Settings, 'values' | 'origins'>): string {
  const isSaid = origins.get('server.host')?.kind !== 'default'
  return needsKey(values) && !isSaid ? '0.0.0.0' : values.server.host
}

export function needsKey({ server, serve }: Settings['values']): boolean {
  return server.apiKeyHashes.length + serve.apiKeys.length > 0
}

/** Addresses as people write them: `gpu1:8000` means `http://gpu1:8000`. Throws `WR_INVALID_CONFIG`. */
export function readAddress(word: string): string {
  const text = /^[a-z][a-z0-9+.-]*:\/\//i.test(word) ? word : `http://${word}`
  const url = engineAddress(text)
  if (url === undefined) throw new WarmrouteError('WR_INVALID_CONFIG', { reason: addressTrouble(text) })
  return url
}

/** `prefill=http://gpu1:8000` says what the worker does, where its engine does not. Throws `WR_INVALID_CONFIG`. */
export function readWorker(word: string): { readonly url: string; readonly role?: WorkerRole } {
  const [, role, address] = /^([a-z]+)=(.*)$/i.exec(word) ?? []
  if (role === undefined || address === undefined) return { url: readAddress(word) }
  const known = workerRoles.find((it) => it === role)
  if (!known)
    throw new WarmrouteError('WR_INVALID_CONFIG', {
      reason: `"${role}=": a worker is one of ${workerRoles.join(', ')}`,
    })
  return { url: readAddress(address), role: known }
}

/** A flag that is longer has a line to itself. */
const flagWidth = 38

/** Every setting as a line of help: its flag and its sentence. */
export function settingsHelp(names: readonly (keyof typeof groups)[]): string {
  const lines: string[] = []
  for (const name of names) {
    const { says, options } = groups[name]
    lines.push('', `${says}`)
    for (const [option, { says: sentence, isSwitch, words }] of Object.entries(options)) {
      const flag = `--${option.replaceAll(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`)}`
      const use = isSwitch ? flag : `${flag} <value>`
      const start = use.length > flagWidth ? `${use}\n${' '.repeat(flagWidth + 2)}` : use.padEnd(flagWidth)
      lines.push(`  ${start} ${firstSentence(sentence)}${words ? ` (${words.join(', ')})` : ''}`)
    }
  }
  return lines.join('\n')
}

/** To the first full stop, colon or semicolon that stands in no bracket. */
function firstSentence(text: string): string {
  let depth = 0
  for (let at = 0; at < text.length; at++) {
    if (text[at] === '(') depth++
    else if (text[at] === ')') depth--
    else if (depth === 0 && /^[.:;](?:\s|$)/.test(text.slice(at, at + 2))) return text.slice(0, at)
  }
  return text
}
