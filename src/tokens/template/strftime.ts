/**
 * `strftime` of Python, in local time and the C locale, for the directives that templates use. Local is where this process runs (`TZ`), as
 * it is where the engine runs; nobody tells whether the two are one.
 */
import { spend } from './meter.js'
import { TemplateError } from './values.js'

/** A clock that notes whether it was read: then a text is only what the engine's clock and zone would make it. */
export class WatchedClock {
  isRead = false
  readonly #date: () => Date

  constructor(date: () => Date = () => new Date()) {
    this.#date = date
  }

  readonly date = (): Date => {
    this.isRead = true
    return this.#date()
  }
}

const months = [
  'January',
  'February',
  'March',
  'April',
  'May',
  'June',
  'July',
  'August',
  'September',
  'October',
  'November',
  'December',
]
const days = ['Sunday', 'Monday', 'Tuesday', 'Wednesday', 'Thursday', 'Friday', 'Saturday']

export function strftime(date: Date, format: string): string {
  spend(format.length >>> 1)
  const two = (value: number): string => String(value).padStart(2, '0')
  const twelve = (hour: number): number => hour % 12 || 12
  const fields: Readonly<Record<string, () => string>> = {
    Y: () => String(date.getFullYear()),
    y: () => two(date.getFullYear() % 100),
    m: () => two(date.getMonth() + 1),
    d: () => two(date.getDate()),
    e: () => String(date.getDate()).padStart(2, ' '),
    B: () => months[date.getMonth()]!,
    b: () => months[date.getMonth()]!.slice(0, 3),
    h: () => months[date.getMonth()]!.slice(0, 3),
    A: () => days[date.getDay()]!,
    a: () => days[date.getDay()]!.slice(0, 3),
    H: () => two(date.getHours()),
    I: () => two(twelve(date.getHours())),
    M: () => two(date.getMinutes()),
    S: () => two(date.getSeconds()),
    p: () => (date.getHours() < 12 ? 'AM' : 'PM'),
    j: () => String(dayOfYear(date)).padStart(3, '0'),
    F: () => `${date.getFullYear()}-${two(date.getMonth() + 1)}-${two(date.getDate())}`,
    T: () => `${two(date.getHours())}:${two(date.getMinutes())}:${two(date.getSeconds())}`,
    '%': () => '%',
  }
  return format.replaceAll(/%(-?)(.?)/gs, (whole, dash: string, letter: string) => {
    const text = fields[letter]?.()
    if (text === undefined) throw new TemplateError(`unknown date format: ${whole}`)
    return dash ? text.replace(/^[0 ]+(?=.)/, '') : text
  })
}

function dayOfYear(date: Date): number {
  const start = Date.UTC(date.getFullYear(), 0, 1)
  return (Date.UTC(date.getFullYear(), date.getMonth(), date.getDate()) - start) / 86_400_000 + 1
}
