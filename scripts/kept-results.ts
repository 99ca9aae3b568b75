/**
 * What long runs have found so far, one line each in a file under `.bench/`: a run that was stopped goes on where it was, unless the code
 * of the router or the simulator has changed since.
 */
import { createHash } from 'node:crypto'
import { appendFileSync, existsSync, mkdirSync, readFileSync, rmSync } from 'node:fs'
import { dirname } from 'node:path'
import { globSync } from './files.js'

interface Line<Result> {
  readonly key: string
  readonly code: string
  readonly result: Result
}

export class KeptResults<Result> {
  readonly #path: string
  readonly #code = codeHash()
  readonly #results: Map<string, Result>

  constructor(path: string, isAnew: boolean) {
    this.#path = path
    if (isAnew) rmSync(path, { force: true })
    mkdirSync(dirname(path), { recursive: true })
    const lines = (existsSync(path) ? readFileSync(path, 'utf8') : '')
      .split('\n')
      .filter((line) => line.endsWith('}')) // the last one may have been cut off
      .map((line) => JSON.parse(line) as Line<Result>)
    this.#results = new Map(lines.filter(({ code }) => code === this.#code).map(({ key, result }) => [key, result]))
  }

  get(key: string): Result | undefined {
    return this.#results.get(key)
  }

  keep(key: string, result: Result): void {
    this.#results.set(key, result)
    const line: Line<Result> = { key, code: this.#code, result }
    appendFileSync(this.#path, `${JSON.stringify(line)}\n`)
  }
}

/** Of everything that a figure depends on. */
function codeHash(): string {
  const hash = createHash('sha256')
  const files = ['src/core', 'src/sim/engine', 'src/sim/replay'].flatMap((folder) => globSync(folder, /\.ts$/))
  for (const file of files)
    if (!/\.test\.ts$|-(page|causes)\.case\.ts$/.test(file)) hash.update(file).update(readFileSync(file))
  return hash.digest('hex').slice(0, 16)
}
