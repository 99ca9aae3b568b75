/** The bytes of a part of an exposition while they are written, without a string per line that somebody must collect. */
const [newline, zero] = [10, 48]

/** Digits of the largest number that is written digit by digit. */
const digitsMax = 9

export class Slice {
  readonly #start: number
  #bytes: Buffer
  #used = 0
  lines = 0

  constructor(bytes: number) {
    this.#start = bytes
    this.#bytes = Buffer.allocUnsafeSlow(bytes)
  }

  get length(): number {
    return this.#used
  }

  addValue(head: string, value: number): void {
    if (value < 0 || value >= 10 ** digitsMax || !Number.isInteger(value)) return this.addLine(head, decimal(value))
    this.#reserve(head.length)
    const bytes = this.#bytes
    const from = this.#used + bytes.write(head, this.#used)
    let end = from + 1
    for (let rest = value; rest >= 10; rest = (rest / 10) | 0) end++
    for (let at = end - 1, rest = value; at >= from; at--, rest = (rest / 10) | 0) bytes[at] = zero + (rest % 10)
    this.#end(end)
  }

  addLine(head: string, rest = ''): void {
    this.#reserve(head.length + rest.length)
    const end = this.#used + this.#bytes.write(head, this.#used)
    this.#end(rest === '' ? end : end + this.#bytes.write(rest, end))
  }

  /** The bytes so far, the caller's to keep; the next ones go elsewhere. */
  take(): Uint8Array {
    const taken = this.#bytes.subarray(0, this.#used)
    this.#bytes = Buffer.allocUnsafeSlow(this.#start)
    this.#used = 0
    this.lines = 0
    return taken
  }

  #end(at: number): void {
    this.#bytes[at] = newline
    this.#used = at + 1
    this.lines++
  }

  /** Room for so many characters, a number and the end of the line. No character takes more than three bytes of UTF-8. */
  #reserve(characters: number): void {
    const bytes = characters * 3 + digitsMax + 1
    if (this.#used + bytes <= this.#bytes.length) return
    const larger = Buffer.allocUnsafeSlow((this.#used + bytes) * 2)
    this.#bytes.copy(larger, 0, 0, this.#used)
    this.#bytes = larger
  }
}

/** Shortest decimal that reads back as the same number, never in exponent form: `0.00001`, not `1e-5`. */
export function decimal(value: number): string {
  if (Number.isSafeInteger(value)) return String(value) // most are, and none of them has an exponent
  if (value === Number.POSITIVE_INFINITY) return '+Inf'
  if (value === Number.NEGATIVE_INFINITY) return '-Inf'
  const text = String(value)
  if (!text.includes('e')) return text
  const [digits, exponent] = text.split('e')
  const [whole, fraction = ''] = digits!.replace('-', '').split('.')
  const point = whole!.length + Number(exponent)
  const all = whole! + fraction
  const sign = value < 0 ? '-' : ''
  if (point <= 0) return `${sign}0.${'0'.repeat(-point)}${all}`
  return `${sign}${all.padEnd(point, '0')}`
}
