/** State changes on standard error, for people or for machines. Prompts and keys are never given to it. */
import type { Log } from '../server/index.js'
import { createLog } from '../telemetry/index.js'

export function commandLog(form: 'text' | 'json' | 'off'): Log {
  if (form === 'off') return { debug() {}, info() {}, warn() {} }
  if (form === 'json') return createLog({ to: process.stderr })
  return { debug() {}, info: write, warn: (fields, sentence) => write(fields, `warning: ${sentence}`) }
}

function write(fields: Record<string, unknown>, sentence: string): void {
  const words = Object.entries(fields)
    .filter(([, value]) => value !== undefined)
    .map(([name, value]) => `${name}=${typeof value === 'string' ? value : JSON.stringify(value)}`)
  const time = new Date().toISOString().slice(11, 19)
  process.stderr.write(`${time} ${sentence}${words.length === 0 ? '' : ` (${words.join(', ')})`}\n`)
}
