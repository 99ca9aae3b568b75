/** How the demo shows itself: one block that is drawn over itself on a terminal, plain lines anywhere else. */
import { table } from '../table.js'
import type { Score } from './score.js'

export function scoreTable(kv: Score, roundRobin: Score): string[] {
  const row = (title: string, show: (score: Score) => string): string[] => [title, show(kv), show(roundRobin)]
  return table(
    ['', 'KV routing', 'round robin'],
    [
      row('requests answered', ({ requests }) => String(requests)),
      row('prompt tokens found in a cache', ({ hitRate }) => percent(hitRate)),
      row('time to first token, median', ({ firstTokenMs }) => `${firstTokenMs.median.toFixed(0)} ms`),
      row('time to first token, p95', ({ firstTokenMs }) => `${firstTokenMs.p95.toFixed(0)} ms`),
      ['cached tokens foretold exactly', percent(kv.predictedRate), 'does not look'],
      ...(kv.failures + roundRobin.failures > 0 ? [row('failed', ({ failures }) => String(failures))] : []),
    ],
  ).map((line) => `  ${line}`)
}

export function scoreLine(seconds: number, kv: Score, roundRobin: Score): string {
  const side = ({ hitRate, firstTokenMs }: Score): string =>
    `${percent(hitRate)} cached, first token ${firstTokenMs.median.toFixed(0)} ms`
  return `${seconds.toFixed(0).padStart(4)} s  ${kv.requests} requests  KV routing: ${side(kv)}  |  round robin: ${side(roundRobin)}`
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
    const up = this.#drawn > 0 ? `\u001b[${this.#drawn}A` : ''
    this.#out.write(up + lines.map((line) => `\u001b[2K${line}\n`).join(''))
    this.#drawn = lines.length
  }
}

function percent(share: number): string {
  return `${(100 * share).toFixed(1)} %`
}
