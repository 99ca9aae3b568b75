/** `/openapi.json`: the routes as a machine reads them. A test holds it to those that the door serves. */
import { answerJson } from '../http/answer.js'
import type { EndpointRow } from '../request/endpoints.js'
import { endpointRows } from '../request/endpoints.js'
import type { Route } from './route.js'
import type { ShapeName } from './shapes.js'
import { componentSchemas } from './shapes.js'

export function openApiRoute(): Route {
  let text: string | undefined
  return {
    method: 'GET',
    path: '/openapi.json',
    access: 'open',
    handle: ({ response }) => answerJson(response, 200, (text ??= JSON.stringify(describe()))),
  }
}

type Answers = Readonly<Record<number, readonly [description: string, shape?: ShapeName]>>

export interface DescribedRoute {
  readonly method: 'get' | 'post' | 'delete'
  readonly path: string
  readonly summary: string
  readonly takes?: ShapeName
  readonly answers: Answers
  /** The admin key, or being on the gateway's machine. */
  readonly isAdmin?: true
  /** Needs no key, whatever is configured. */
  readonly isOpen?: true
}

/** Routes of our own that a client or an operator may call. */
// biome-ignore format: a table reads best with one row per route
export const ownRoutes: readonly DescribedRoute[] = [
  { method: 'get', path: '/v1/models', summary: 'Models that can serve', answers: { 200: ['OK', 'ModelList'] } },
  { method: 'get', path: '/v1/models/{id}', summary: 'One model', answers: { 200: ['OK', 'Model'] } },
  { method: 'get', path: '/v1/models/{id}/ready', summary: 'Whether a model can serve, and what is missing', answers: { 200: ['OK', 'ModelReadiness'] } },
  { method: 'get', path: '/health', summary: 'Whether the gateway takes requests', answers: { 200: ['It does', 'Health'], 503: ['It ends', 'NotHealthy'] }, isOpen: true },
  { method: 'get', path: '/live', summary: 'Whether the process lives', answers: { 200: ['OK', 'Live'] }, isOpen: true },
  { method: 'get', path: '/ready', summary: 'Whether any model can serve', answers: { 200: ['One can', 'Readiness'], 503: ['None can', 'Readiness'] }, isOpen: true },
  { method: 'get', path: '/metrics', summary: 'Prometheus text', answers: { 200: ['OK'] }, isOpen: true },
  { method: 'get', path: '/openapi.json', summary: 'This page', answers: { 200: ['OK', 'OpenApi'] }, isOpen: true },
  { method: 'get', path: '/busy_threshold', summary: 'When workers count as busy', answers: { 200: ['OK', 'BusyThresholds'] }, isAdmin: true },
  { method: 'post', path: '/busy_threshold', summary: 'Change when workers count as busy', takes: 'ThresholdChange', isAdmin: true,
    answers: { 200: ['OK', 'ModelThresholds'], 400: ['Out of range', 'ThresholdError'], 404: ['No such model', 'ThresholdError'], 422: ['Not such an object', 'ThresholdError'] } },
  { method: 'get', path: '/workers', summary: 'Workers and their states', answers: { 200: ['OK', 'WorkerList'] }, isAdmin: true },
  { method: 'post', path: '/workers', summary: 'A worker joins', takes: 'NewWorker', isAdmin: true,
    answers: { 201: ['It takes requests', 'JoinedWorker'], 202: ['Nobody served its model yet: it waits until its engine was asked', 'WaitingWorker'] } },
  { method: 'delete', path: '/workers/{id}', summary: 'A worker leaves at once', answers: { 200: ['OK', 'WorkerState'] }, isAdmin: true },
  { method: 'post', path: '/workers/{id}/drain', summary: 'A worker takes no new requests and leaves when idle', answers: { 202: ['It leaves when idle', 'WorkerState'] }, isAdmin: true },
  { method: 'get', path: '/models/{id}/tokenizer', summary: "Where a model's tokens come from", answers: { 200: ['OK', 'TokenizerStatus'] }, isAdmin: true },
  { method: 'post', path: '/models/{id}/tokenizer', summary: 'Another tokenizer for a model, while requests run', takes: 'TokenizerChange', answers: { 200: ['OK', 'TokenizerStatus'] }, isAdmin: true },
  { method: 'post', path: '/router', summary: 'The router as a service: new, mark_prefill, mark_free, potential_loads', takes: 'RouterRequest', answers: { 200: ['OK', 'RouterResponse'] }, isAdmin: true },
]

/** Asked of the worker that keeps the response. */
const storedRoutes = [
  {
    method: 'get',
    path: '/v1/responses/{id}',
    summary: 'A response that a worker keeps, whole or told again as a stream',
  },
  { method: 'delete', path: '/v1/responses/{id}', summary: 'Delete a response, where its engine can' },
  {
    method: 'post',
    path: '/v1/responses/{id}/cancel',
    summary: 'Cancel a response that is generated in the background',
  },
] as const

const requestShapes: Readonly<Partial<Record<EndpointRow['endpoint'], ShapeName>>> = {
  chat_completions: 'ChatCompletionRequest',
  completions: 'CompletionRequest',
  responses: 'ResponseRequest',
  anthropic_messages: 'MessageRequest',
  generate: 'GenerateRequest',
  embeddings: 'EmbeddingRequest',
}

function describe(): object {
  const paths: Record<string, Record<string, object>> = {}
  for (const row of endpointRows) paths[row.path] = { post: engineOperation(row) }
  for (const route of storedRoutes) (paths[route.path] ??= {})[route.method] = storedOperation(route)
  for (const route of ownRoutes) (paths[route.path] ??= {})[route.method] = ownOperation(route)
  return {
    openapi: '3.1.0',
    info: { title: 'Warmroute', version: '0.1.0' },
    paths,
    components: {
      schemas: componentSchemas(),
      securitySchemes: {
        apiKey: { type: 'http', scheme: 'bearer', description: 'Where keys are configured' },
        anthropicKey: { type: 'apiKey', in: 'header', name: 'x-api-key', description: 'The same key' },
        adminKey: { type: 'http', scheme: 'bearer', description: 'Not needed on the machine of the gateway' },
      },
    },
    security: [{ apiKey: [] }, { anthropicKey: [] }, {}],
  }
}

function engineOperation(row: EndpointRow): object {
  return {
    summary: `Forwarded to a worker (${row.endpoint})`,
    requestBody: bodyOf(requestShapes[row.endpoint] ?? 'EngineRequest'),
    responses: { 200: engineAnswer(row.generates), default: errors(row.isAnthropic === true) },
  }
}

function storedOperation({ method, summary }: (typeof storedRoutes)[number]): object {
  const mayStream = method === 'get'
  const ofStreams = [
    { name: 'stream', in: 'query', schema: { type: 'boolean' } },
    { name: 'starting_after', in: 'query', schema: { type: 'integer' } },
  ]
  return {
    summary,
    parameters: [
      { name: 'id', in: 'path', required: true, schema: { type: 'string' } },
      ...(mayStream ? ofStreams : []),
    ],
    responses: { 200: engineAnswer(mayStream), default: errors(false) },
  }
}

function engineAnswer(mayStream: boolean): object {
  const events = mayStream ? { 'text/event-stream': { schema: { type: 'string' } } } : {}
  return { description: "The engine's answer, byte for byte", content: { 'application/json': {}, ...events } }
}

function ownOperation({ path, summary, takes, answers, isAdmin, isOpen }: DescribedRoute): object {
  const names = [...path.matchAll(/\{(\w+)\}/g)].map((match) => match[1]!)
  const responses = Object.entries(answers).map(([status, [description, shape]]) => {
    const content = shape
      ? { 'application/json': { schema: refTo(shape) } }
      : { 'text/plain': { schema: { type: 'string' } } }
    return [status, { description, content }] as const
  })
  return {
    summary,
    ...(isAdmin ? { security: [{ adminKey: [] }, {}] } : isOpen ? { security: [] } : {}),
    ...(names.length === 0
      ? {}
      : { parameters: names.map((name) => ({ name, in: 'path', required: true, schema: { type: 'string' } })) }),
    ...(takes ? { requestBody: bodyOf(takes) } : {}),
    responses: { ...Object.fromEntries(responses), default: errors(false) },
  }
}

function bodyOf(shape: ShapeName): object {
  const isRequired = shape !== 'TokenizerChange' // nothing is a wish to look again
  return { required: isRequired, content: { 'application/json': { schema: refTo(shape) } } }
}

function errors(isAnthropic: boolean): object {
  const schema = isAnthropic ? refTo('AnthropicError') : { oneOf: [refTo('Error'), refTo('DynamoError')] }
  return {
    description: 'An error, with a code of docs/reference/errors.md',
    content: { 'application/json': { schema } },
  }
}

function refTo(shape: ShapeName): object {
  return { $ref: `#/components/schemas/${shape}` }
}
