/** What a model's tokens can come from. All sources answer alike, so that one can replace another while requests run. */
import type { Body, Route } from '../chat/request.js'
import type { ModelCounts, TokenizeOptions } from '../model/model-tokens.js'
import type { Tokens } from '../tokens.js'

export interface TokenSource {
  /**
   * Without a body it is read from `options.raw`, where that holds nobody. Throws `LoadOnlyError` for what cannot be known,
   * `WarmrouteError` for what failed.
   */
  tokenize(route: Route, body: Body | undefined, options: TokenizeOptions): Promise<Tokens>
  readonly counts: ModelCounts | undefined
}

/** Which source serves a model, in words for people and dashboards. */
export type SourceName = 'configured' | 'folder' | 'hub-cache' | 'hub' | 'engine' | 'none'
