/**
 * When it is said that a model's prompts are routed without their tokens, and why; and where tokens come from, where they do. Once per
 * change, not per request; what changes all the time is said now and then. Pure but for the log.
 */
import type { Log } from '../../server/index.js'
import type { Dialect, ModelStatus } from '../../tokens/index.js'

/** Lines of one model that may follow each other at once, and how long it is until it may have one more. */
const linesMax = 6
const lineMs = 10_000

interface Told {
  readonly loadOnly: string | undefined
  readonly place: string
  readonly atMs: number
  readonly linesLeft: number
}

export class TokenNews {
  readonly #log: Log
  readonly #told = new Map<string, Told>()

  constructor(log: Log) {
    this.#log = log
  }

  /** `dialect`: for workers of another kind than the one by whose rules the model's prompts are built. */
  look(model: string, dialect: Dialect | undefined, status: ModelStatus, nowMs: number): void {
    const { source, from, loadOnly, trouble } = status
    const key = `${dialect ?? ''} ${model}`
    const told = this.#told.get(key)
    const place = `${source} ${from}`
    const isSame = told ? told.loadOnly === loadOnly && told.place === place : dialect && loadOnly === undefined
    const linesLeft = told ? Math.min(linesMax, told.linesLeft + (nowMs - told.atMs) / lineMs) : linesMax
    if (isSame || linesLeft < 1) return
    this.#told.set(key, { loadOnly, place, atMs: nowMs, linesLeft: linesLeft - 1 })
    const tried = status.tried.length === 0 ? undefined : status.tried.join('; ')
    const where = { model, engine: dialect, source, from, tried }
    if (loadOnly === undefined)
      return this.#log.info({ ...where, trouble }, 'prompts of a model are routed by their tokens')
    const isMute = loadOnly === 'source-failed'
    const why = source === 'none' ? (trouble ?? status.reason) : isMute ? trouble : undefined
    this.#log.warn({ ...where, reason: loadOnly, why }, 'prompts of a model are routed without their tokens')
  }
}
