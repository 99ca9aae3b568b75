/** What engines made of `/v1/responses`, `/v1/messages` and chats with tools, over two templates (test/fixtures). */
import { readFileSync } from 'node:fs'
import { gunzipSync } from 'node:zlib'
import type { Body, Dialect, Route } from './request.js'

export interface RecordedRoute {
  readonly template: string
  /** Of the line that begins a template. */
  readonly source?: string
  readonly route: Route
  readonly name: string
  readonly request: Body
  /** Absent where the engine refused it. */
  readonly token_ids?: readonly number[]
}

/** With the `--reasoning-parser` of the SGLang that made it. */
export interface RecordedThoughts extends RecordedRoute {
  readonly parser: string | null
}

/** What its tokenize endpoint answered, or how many tokens it counted. */
export interface RecordedAsk extends Pick<RecordedRoute, 'template' | 'route' | 'name'> {
  readonly ask: Body
  readonly tokens?: readonly number[]
  readonly count?: number
  /** It refused. */
  readonly status?: number
}

export function recordedRoutes(dialect: Dialect): readonly RecordedRoute[] {
  return linesOf(`${dialect}/routes.jsonl.gz`) as readonly RecordedRoute[]
}

export function recordedAsks(dialect: Dialect): readonly RecordedAsk[] {
  return linesOf(`${dialect}/tokenize-routes.jsonl.gz`) as readonly RecordedAsk[]
}

export function recordedThoughts(): readonly RecordedThoughts[] {
  return linesOf('sglang/thoughts.jsonl.gz') as readonly RecordedThoughts[]
}

export interface RecordedThoughtAsk extends Pick<RecordedThoughts, 'template' | 'parser'> {
  readonly path: string
  readonly ask: Body
  readonly tokens?: readonly number[]
  readonly input_tokens?: number
  readonly status?: number
}

export function recordedThoughtAsks(): readonly RecordedThoughtAsk[] {
  return linesOf('sglang/tokenize-thoughts.jsonl.gz') as readonly RecordedThoughtAsk[]
}

function linesOf(file: string): readonly unknown[] {
  const bytes = readFileSync(new URL(`../../../test/fixtures/${file}`, import.meta.url))
  return gunzipSync(bytes)
    .toString('utf8')
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line) as unknown)
}
