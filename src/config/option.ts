/**
 * One option is declared once. File key, flag, environment name, validation, help and reference page all come from that
 * declaration. An option knows how to read itself from text (flag, environment) and from a file's value.
 */
import { z } from 'zod'

export interface Option<T = unknown> {
  readonly schema: z.ZodType<T>
  readonly fallback: T
  /** What happens, and what the extreme value means. */
  readonly says: string
  /** What a person may write. */
  readonly accepts: string
  /** The value that a flag or an environment variable holds as text; throws or yields undefined if it is none. */
  readonly fromText: (text: string) => unknown
  /** All it can be, where that is a list. */
  readonly words?: readonly string[]
  /** A flag of this option stands alone, and has a `--no-` form. */
  readonly isSwitch: boolean
  readonly extras: OptionExtras
}

export interface OptionExtras {
  /** Upstream's environment names. The first that is set counts; a value that cannot be read is ignored, as upstream does. */
  readonly env?: readonly string[]
  /** Upstream's flags, with their leading dashes. */
  readonly flags?: readonly string[]
  /** Accepted, and does nothing here; the text says why. */
  readonly noEffect?: string
  /** Kept for old configurations; the text says what to use. */
  readonly deprecated?: string
  /** A value under an upstream environment name that breaks a rule is an error, not ignored. */
  readonly isStrictEnv?: boolean
  /** Replaces the phrase that says what a person may write. */
  readonly accepts?: string
  /** A number outside of it is refused, whichever source it comes from. */
  readonly range?: Range
}

/** Both ends are inside. */
export interface Range {
  readonly min: number
  readonly max?: number
  readonly isWhole?: boolean
}

/** The longest that a timer of Node waits: a longer one fires at once. */
export const timerMsMax: number = 2 ** 31 - 1

export function toggle(fallback: boolean, says: string, extras: OptionExtras = {}): Option<boolean> {
  return build(z.boolean(), fallback, says, 'true or false', readBoolean, extras, true)
}

export function number(fallback: number, says: string, extras: OptionExtras = {}): Option<number> {
  return build(z.number(), fallback, says, numberIn(extras.range), readNumber, extras)
}

/** A time that a timer can wait. `min` is 1 where 0 would be no time at all, and 0 where that means never. */
export function milliseconds(
  fallback: number,
  says: string,
  { min, ...extras }: OptionExtras & { readonly min: 0 | 1 },
): Option<number> {
  const accepts = `milliseconds from ${min} to ${timerMsMax}`
  return number(fallback, says, { accepts, ...extras, range: { min, max: timerMsMax } })
}

/** `none` in any letter case turns it off. */
export function optionalNumber(
  fallback: number | undefined,
  says: string,
  extras: OptionExtras = {},
): Option<number | undefined> {
  const schema = offWord(z.number()) as z.ZodType<number | undefined>
  return build(schema, fallback, says, `${numberIn(extras.range)}, or none`, readNumber, extras)
}

export function text(fallback: string, says: string, extras: OptionExtras = {}): Option<string> {
  return build(z.string(), fallback, says, 'a text', (value) => value, extras)
}

export function optionalText(says: string, extras: OptionExtras = {}): Option<string | undefined> {
  const schema = offWord(z.string()) as z.ZodType<string | undefined>
  return build(schema, undefined, says, 'a text', (value) => value, extras)
}

export function choice<const Words extends readonly [string, ...string[]]>(
  words: Words,
  fallback: Words[number],
  says: string,
  extras: OptionExtras = {},
): Option<Words[number]> {
  const accepts = words.map((word) => `\`${word}\``).join(', ')
  return { ...build(oneOf(words), fallback, says, accepts, (value) => value, extras), words }
}

/** One of the words. YAML reads an unquoted `1.0` as a number: the word that is that number is meant. */
export function oneOf<const Words extends readonly [string, ...string[]]>(words: Words): z.ZodType<Words[number]> {
  const toWord = (value: unknown): unknown =>
    typeof value === 'number' ? (words.find((word) => Number(word) === value) ?? value) : value
  return z.preprocess(toWord, z.enum(words)) as unknown as z.ZodType<Words[number]>
}

/** Texts: a list in a file, separated by commas in a flag or the environment, where a JSON list is read as one. */
export function list(says: string, extras: OptionExtras = {}): Option<readonly string[]> {
  return build(z.array(z.string()), [], says, 'texts, as a list or separated by commas', readList, extras)
}

/** A value with structure: as it is in a file, as JSON in a flag or the environment. */
export function structure<T>(
  schema: z.ZodType<T>,
  fallback: T,
  says: string,
  accepts: string,
  extras: OptionExtras = {},
): Option<T> {
  return build(schema, fallback, says, accepts, (value) => JSON.parse(value) as unknown, extras)
}

export function snakeCase(name: string): string {
  return name.replaceAll(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`)
}

export function flagOf(name: string): string {
  return `--${snakeCase(name).replaceAll('_', '-')}`
}

export function envOf(name: string): string {
  return `WARMROUTE_${snakeCase(name).toUpperCase()}`
}

export function isInRange(value: number, { min, max = Number.MAX_VALUE, isWhole = false }: Range): boolean {
  return value >= min && value <= max && (!isWhole || Number.isSafeInteger(value))
}

function numberIn(range: Range | undefined): string {
  if (!range) return 'a number'
  const kind = range.isWhole ? 'a whole number' : 'a number'
  return range.max === undefined ? `${kind} from ${range.min}` : `${kind} from ${range.min} to ${range.max}`
}

function build<T>(
  schema: z.ZodType<T>,
  fallback: T,
  says: string,
  accepts: string,
  fromText: Option['fromText'],
  extras: OptionExtras,
  isSwitch = false,
): Option<T> {
  return { schema, fallback, says, accepts: extras.accepts ?? accepts, fromText, isSwitch, extras }
}

function offWord(schema: z.ZodType): z.ZodType {
  const isOff = (value: unknown) => value === null || (typeof value === 'string' && value.toLowerCase() === 'none')
  return z.preprocess((value) => (isOff(value) ? undefined : value), schema.optional())
}

function readBoolean(value: string): boolean | undefined {
  const word = value.toLowerCase()
  if (['1', 'true', 'on', 'yes'].includes(word)) return true
  return ['0', 'false', 'off', 'no'].includes(word) ? false : undefined
}

function readList(value: string): unknown {
  if (value.startsWith('[')) return JSON.parse(value) as unknown
  return value
    .split(',')
    .map((part) => part.trim())
    .filter((part) => part !== '') // a comma at the end is no text
}

/** `None` stays a word, so that an optional number can tell off from unreadable. */
function readNumber(value: string): number | string | undefined {
  if (value === '') return undefined // which Number() takes for 0
  if (value.toLowerCase() === 'none') return value
  const number = Number(value)
  return Number.isNaN(number) ? undefined : number
}
