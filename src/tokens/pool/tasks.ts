/** What the tokenizer threads do: the words that both sides of a thread use. */
import type { PromptRules } from '../chat/build-prompt.js'
import type { ParsedTemplate } from '../chat/chat-template.js'
import type { Route, Truncation } from '../chat/request.js'
import type { EncoderCounts } from '../encode/encoder.js'
import type { LoadedModel } from '../model/loaded-model.js'
import type { TokensAnswer } from '../sources/read-answer.js'
import type { Reading } from '../model/readings.js'

export interface LoadTask {
  readonly folder: string
  readonly key: string
  readonly reading: Reading
}

export interface EncodeTask {
  readonly model: ModelTables
  /** UTF-8 of the text, or of the rest of one. */
  readonly text: Uint8Array
  readonly isContinued: boolean
}

/** The shared part of a loaded model: nothing in it is copied to a thread. */
export type ModelTables = Pick<LoadedModel, 'key' | 'plan' | 'vocabulary' | 'library'>

export interface EncodeResult {
  readonly ids: Uint32Array
  /** Pairs, see `Boundaries`. */
  readonly cuts: Uint32Array
  /** What the thread's caches counted since its last answer for this model; nothing where the library encodes. */
  readonly counted: EncoderCounts | undefined
  /** What the thread's caches for this model hold now. */
  readonly held: { readonly thread: number; readonly bytes: number }
}

export interface RenderTask {
  readonly key: string
  readonly templates: readonly { readonly name: string; readonly source: string }[]
  readonly specials: Readonly<Record<string, string>>
  readonly route: Route
  /** The request's own bytes: parsing them over there is cheaper than copying what was parsed here. */
  readonly raw: Uint8Array
  readonly rules: PromptRules
  readonly outputMax: number
  readonly deadlineMs: number
}

/** A text on its way to the loop: its bytes are given away, a string would be received in one go. */
export interface TextBytes {
  readonly bytes: Uint8Array<ArrayBuffer>
  /** UTF-16 units of the text. */
  readonly units: number
}

export interface RenderResult {
  readonly kind: 'chat'
  readonly text: TextBytes
  readonly suffix: string | undefined
  readonly addSpecialTokens: boolean
  readonly truncation: Truncation | undefined
  readonly isProven: boolean
}

/** Texts lie one behind the other: one array is received much faster than a hundred thousand strings. */
export interface TextsResult {
  readonly kind: 'text'
  readonly bytes: Uint8Array<ArrayBuffer>
  /** Where each of them ends. */
  readonly ends: Uint32Array<ArrayBuffer>
  /** UTF-16 units of each. */
  readonly units: Uint32Array<ArrayBuffer>
  readonly addSpecialTokens: boolean
  readonly truncation: Truncation | undefined
  readonly isProven: boolean
}

export interface IdsResult {
  readonly kind: 'ids'
  /** Of the first prompt. */
  readonly ids: Uint32Array
  readonly promptCount: number
  readonly totalCount: number
  readonly isProven: boolean
}

/** An engine's answer, as it came. */
export interface AnswerTask {
  readonly bytes: Uint8Array
}

export type ParseTask = readonly Omit<ParsedTemplate, 'parsed'>[]

/** Errors lose their class between threads; these travel as data. */
export type Answer<T> =
  | { readonly kind: 'done'; readonly value: T }
  | {
      readonly kind: 'failed'
      readonly code: string
      readonly reason: string
      readonly details: Record<string, unknown>
    }

export interface TaskTypes {
  readonly load: { readonly task: LoadTask; readonly result: LoadedModel }
  readonly encode: { readonly task: EncodeTask; readonly result: EncodeResult }
  readonly render: { readonly task: RenderTask; readonly result: RenderResult | TextsResult | IdsResult }
  readonly answer: { readonly task: AnswerTask; readonly result: TokensAnswer }
  readonly parse: { readonly task: ParseTask; readonly result: readonly ParsedTemplate[] }
}
