/** Every route that ends in an engine: what it is called in metrics, how its prompt is found, whether it may stream. */

/** Label value in metrics, as upstream spells it. */
export type Endpoint =
  | 'chat_completions'
  | 'completions'
  | 'responses'
  | 'anthropic_messages'
  | 'embeddings'
  | 'generate'
  | 'pooling'
  | 'classify'
  | 'native'

export interface EndpointRow {
  readonly path: string
  readonly endpoint: Endpoint
  /** Body fields that make up the prompt, in the order in which a template places them. Empty: balanced by load. */
  readonly promptFields: readonly string[]
  /** False: nothing is generated, so nothing is booked for decoding and no stream is expected. */
  readonly generates: boolean
  readonly isAnthropic?: boolean
  /** The engine's server answers it alone: no prompt is computed for it, so that it waits for nobody and is no load. */
  readonly isIdle?: boolean
}

const load: readonly string[] = []

// biome-ignore format: a table reads best with one row per route
export const endpointRows: readonly EndpointRow[] = [
  { path: '/v1/chat/completions', endpoint: 'chat_completions', promptFields: ['tools', 'messages'], generates: true },
  { path: '/v1/completions', endpoint: 'completions', promptFields: ['prompt'], generates: true },
  { path: '/v1/responses', endpoint: 'responses', promptFields: ['tools', 'instructions', 'input'], generates: true },
  { path: '/v1/messages', endpoint: 'anthropic_messages', promptFields: ['tools', 'system', 'messages'], generates: true, isAnthropic: true },
  { path: '/v1/messages/count_tokens', endpoint: 'native', promptFields: load, generates: false, isAnthropic: true, isIdle: true },
  { path: '/v1/embeddings', endpoint: 'embeddings', promptFields: ['input'], generates: false },
  { path: '/generate', endpoint: 'generate', promptFields: ['text', 'input_ids', 'image_data', 'audio_data', 'video_data'], generates: true },
  { path: '/tokenize', endpoint: 'native', promptFields: load, generates: false, isIdle: true },
  { path: '/detokenize', endpoint: 'native', promptFields: load, generates: false, isIdle: true },
  { path: '/v1/rerank', endpoint: 'native', promptFields: load, generates: false },
  { path: '/rerank', endpoint: 'native', promptFields: load, generates: false },
  { path: '/v1/score', endpoint: 'native', promptFields: load, generates: false },
  { path: '/score', endpoint: 'native', promptFields: load, generates: false },
  { path: '/v1/pooling', endpoint: 'pooling', promptFields: load, generates: false },
  { path: '/pooling', endpoint: 'pooling', promptFields: load, generates: false },
  { path: '/v1/classify', endpoint: 'classify', promptFields: load, generates: false },
  { path: '/classify', endpoint: 'classify', promptFields: load, generates: false },
]

export const responsesRow = endpointRows.find(({ endpoint }) => endpoint === 'responses')!

/** A response that is kept: `/v1/responses/{id}`, and how one is cancelled. */
export const storedRow: EndpointRow = {
  path: '/v1/responses/{id}',
  endpoint: 'native',
  promptFields: load,
  generates: false,
}

export const endpointByPath: ReadonlyMap<string, EndpointRow> = new Map(endpointRows.map((row) => [row.path, row]))
