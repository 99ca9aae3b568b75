/** What `npm run soak:gateway` was asked for. A number that cannot be read is an error, never a run without an end. */
import { parseArgs } from 'node:util'

export const soakUsage = `Usage: npm run soak:gateway -- [--seconds N | --minutes N] [--seed N]
       npm run soak:gateway -- [seconds] [seed]
  --seconds N   how long the load lasts (60)
  --minutes N   the same in minutes; fractions are fine
  --seed N      which load and which faults, 0 to 4294967295 (1)
  --help        this text`

export type SoakArguments =
  | { readonly kind: 'run'; readonly seconds: number; readonly seed: number }
  | { readonly kind: 'help' }
  | { readonly kind: 'refused'; readonly reason: string }

export function readSoakArguments(words: readonly string[]): SoakArguments {
  try {
    const { values, positionals } = parseArgs({
      args: [...words],
      allowPositionals: true,
      options: {
        seconds: { type: 'string' },
        minutes: { type: 'string' },
        seed: { type: 'string' },
        help: { type: 'boolean', short: 'h' },
      },
    })
    if (values.help) return { kind: 'help' }
    if (positionals.length > 2) throw new Error(`'${positionals[2]}' is one word too many`)
    const durations = [values.seconds, values.minutes, positionals[0]].filter((it) => it !== undefined)
    if (durations.length > 1) throw new Error('how long is said twice: --seconds, --minutes or the first word')
    if (values.seed !== undefined && positionals[1] !== undefined) throw new Error('the seed is said twice')
    const minutes = values.minutes !== undefined
    const duration = numberOf(minutes ? '--minutes' : 'seconds', durations[0] ?? '60')
    if (duration <= 0) throw new Error('a soak lasts longer than nothing')
    const seed = numberOf('the seed', values.seed ?? positionals[1] ?? '1')
    if (!Number.isInteger(seed) || seed < 0 || seed > 0xffff_ffff)
      throw new Error(`the seed ${seed} is no 32-bit number`)
    return { kind: 'run', seconds: minutes ? duration * 60 : duration, seed }
  } catch (error) {
    return { kind: 'refused', reason: (error as Error).message }
  }
}

function numberOf(name: string, text: string): number {
  const value = text.trim() === '' ? Number.NaN : Number(text)
  if (!Number.isFinite(value)) throw new Error(`${name}: '${text}' is not a number`)
  return value
}
