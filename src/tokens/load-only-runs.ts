/**
 * Do the prompts of a model get tokens? After a few in a row on one route that got none they do not, until as many in a row got some. A
 * picture, or a body that the engine will refuse, says nothing of the model. Pure: outcomes in, words out.
 */
import type { LoadOnlyReason, Route } from './chat/request.js'

/** Fewer are a hiccup. */
const rowMin = 3

/** These lie with the request. */
const ofRequests: ReadonlySet<LoadOnlyReason> = new Set<LoadOnlyReason>([
  'media-image',
  'media-audio',
  'media-video',
  'media-other',
  'embeddings',
  'stored-response',
  'request-template',
  'malformed',
  'too-long',
  'other-route',
])

interface Run {
  reason: LoadOnlyReason
  failed: number
  known: number
  isLoadOnly: boolean
}

export class LoadOnlyRuns {
  /** Routes on which a prompt had no tokens lately. */
  readonly #runs = new Map<Route, Run>()

  tokenized(route: Route): void {
    const run = this.#runs.get(route)
    if (!run) return
    run.known++
    if (!run.isLoadOnly || run.known >= rowMin) this.#runs.delete(route)
  }

  loadOnly(route: Route, reason: LoadOnlyReason): void {
    if (ofRequests.has(reason)) return
    let run = this.#runs.get(route)
    if (!run) this.#runs.set(route, (run = { reason, failed: 0, known: 0, isLoadOnly: false }))
    run.known = 0
    if (run.isLoadOnly) return
    run.reason = reason
    run.failed++
    run.isLoadOnly = run.failed >= rowMin
  }

  /** Which routes have no tokens, and why; undefined while all have. */
  get reason(): string | undefined {
    const words = [...this.#runs].flatMap(([route, { reason, isLoadOnly }]) =>
      isLoadOnly ? [`${route}: ${reason}`] : [],
    )
    return words.length === 0 ? undefined : words.join(', ')
  }
}
