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

  /** A line is written in parts: `addBytes` and `addText` as often as need be, and `addValue` ends it. */
  addBytes(bytes: Uint8Array): this {
    this.#reserve(bytes.length)
    this.#bytes.set(bytes, this.#used)
    this.#used += bytes.length
    return this
  }

  addText(text: string): this {
    this.#reserve(text.length * 3) // no character takes more bytes of UTF-8
    this.#used += this.#bytes.write(text, this.#used)
    return this
  }

  addValue(value: number): void {
    if (!(value >= 0 && value < 10 ** digitsMax && Number.isInteger(value))) return this.addText(decimal(value)).end()
    this.#reserve(digitsMax)
    const bytes = this.#bytes
    const from = this.#used
    let end = from + 1
    for (let rest = value; rest >= 10; rest = (rest / 10) | 0) end++
    for (let at = end - 1, rest = value; at >= from; at--, rest = (rest / 10) | 0) bytes[at] = zero + (rest % 10)
    this.#used = end
    this.end()
  }

  end(): void {
    this.#reserve(1)
    this.#bytes[this.#used++] = newline
    this.lines++
  }

  /** The bytes so far, the caller's to keep; the next ones go elsewhere. */
  take(): Uint8Array {
    const taken = this.#bytes.subarray(0, this.#used)
    this.#bytes = Buffer.allocUnsafeSlow(this.#start)
    this.#used = 0
    this.lines = 0
    return taken
  }

  #reserve(bytes: number): void {
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
