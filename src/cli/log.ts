/** State changes, and single requests where that is asked for, on standard error; for people or for machines. Prompts and keys are never given to it. */
import type { Log } from '../server/index.js'
import type { LogLevel } from '../telemetry/index.js'
import { createLog, hiddenText, secretNames } from '../telemetry/index.js'

export interface CommandLogOptions {
  readonly form: 'text' | 'json' | 'off'
  readonly level: Exclude<LogLevel, 'silent'>
}

export function commandLog({ form, level }: CommandLogOptions): Log {
  if (form === 'off') return { debug() {}, info() {}, warn() {} }
  if (form === 'json') return createLog({ level, to: process.stderr })
  return {
    debug: level === 'debug' ? write : () => {},
    info: level === 'warn' ? () => {} : write,
    warn: (fields, sentence) => write(fields, `warning: ${sentence}`),
  }
}

function write(fields: Record<string, unknown>, sentence: string): void {
  const words = Object.entries(fields)
    .filter(([, value]) => value !== undefined)
    .map(([name, value]) => [name, shown(name, value)] as const)
    .map(([name, value]) => `${name}=${isPlain(value) ? value : JSON.stringify(value, shown)}`)
  const time = new Date().toISOString().slice(11, 19)
  process.stderr.write(`${time} ${sentence}${words.length === 0 ? '' : ` (${words.join(', ')})`}\n`)
}

/** Of one line: what engines and clients say must not look like a line of ours. */
function isPlain(value: unknown): value is string {
  return typeof value === 'string' && !/[\p{Cc}\p{Zl}\p{Zp}]/u.test(value)
}

/** The same names are hidden as in JSON: nobody logs them, and nobody has to be trusted. What JSON has no word for is told as text. */
function shown(name: string, value: unknown): unknown {
  if (secretNames.includes(name)) return hiddenText
  return value instanceof Error || typeof value === 'bigint' ? String(value) : value
}
