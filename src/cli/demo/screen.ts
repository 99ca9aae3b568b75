/** How the demo shows itself: one block that is drawn over itself on a terminal, plain lines anywhere else. */
import { table } from '../table.js'
import type { Score } from './score.js'

/** The two sides of a demo: what they are called, and what is worth a row. */
export interface Sides {
  readonly titles: readonly [string, string]
  /** The other side does not look at caches, so it foretells nothing. */
  readonly isOtherBlind: boolean
  readonly showsGaps: boolean
}

export const routingSides: Sides = { titles: ['KV routing', 'round robin'], isOtherBlind: true, showsGaps: false }
export const pairSides: Sides = { titles: ['in pairs', 'one engine each'], isOtherBlind: false, showsGaps: true }

export function scoreTable({ titles, isOtherBlind, showsGaps }: Sides, one: Score, other: Score): string[] {
  const row = (title: string, show: (score: Score) => string): string[] => [title, show(one), show(other)]
  return table(
    ['', ...titles],
    [
      row('requests answered', ({ requests }) => String(requests)),
      row('prompt tokens found in a cache', ({ hitRate }) => percent(hitRate)),
      row('time to first token, median', ({ firstTokenMs }) => `${firstTokenMs.median.toFixed(0)} ms`),
      row('time to first token, p95', ({ firstTokenMs }) => `${firstTokenMs.p95.toFixed(0)} ms`),
      ...(showsGaps
        ? [
            row('longest pause in an answer, median', ({ longestGapMs }) => `${longestGapMs.median.toFixed(0)} ms`),
            row('longest pause in an answer, p95', ({ longestGapMs }) => `${longestGapMs.p95.toFixed(0)} ms`),
          ]
        : []),
      [
        'cached tokens foretold exactly',
        percent(one.predictedRate),
        isOtherBlind ? 'does not look' : percent(other.predictedRate),
      ],
      ...(one.failures + other.failures > 0 ? [row('failed', ({ failures }) => String(failures))] : []),
    ],
  ).map((line) => `  ${line}`)
}

export function scoreLine({ titles }: Sides, seconds: number, one: Score, other: Score): string {
  const side = ({ hitRate, firstTokenMs }: Score): string =>
    `${percent(hitRate)} cached, first token ${firstTokenMs.median.toFixed(0)} ms`
  return `${seconds.toFixed(0).padStart(4)} s  ${one.requests} requests  ${titles[0]}: ${side(one)}  |  ${titles[1]}: ${side(other)}`
}

export class Screen {
  readonly #out: NodeJS.WriteStream
  #drawn = 0

  constructor(out: NodeJS.WriteStream) {
    this.#out = out
  }

  get isLive(): boolean {
    return this.#out.isTTY
  }

  say(...lines: readonly string[]): void {
    for (const line of lines) this.#out.write(`${line}\n`)
  }

  /** Draws over what was drawn last. */
  draw(lines: readonly string[]): void {
    const up = this.#drawn > 0 ? `\r\u001b[${this.#drawn}A` : '' // a Ctrl-C that was shown has moved the cursor
    this.#out.write(up + lines.map((line) => `\u001b[2K${line}\n`).join(''))
    this.#drawn = lines.length
  }
}

function percent(share: number): string {
  return `${(100 * share).toFixed(1)} %`
}
