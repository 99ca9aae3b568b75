/** `/openapi.json`: the routes as a machine reads them, made from the same tables that serve them. */
import { answerJson } from '../http/answer.js'
import { endpointRows } from '../request/endpoints.js'
import type { Route } from './route.js'

export function openApiRoute(): Route {
  let text: string | undefined
  return {
    method: 'GET',
    path: '/openapi.json',
    access: 'open',
    handle: ({ response }) => answerJson(response, 200, (text ??= JSON.stringify(describe()))),
  }
}

/** Routes of our own that a client or an operator may call. */
const own: readonly (readonly [method: string, path: string, summary: string])[] = [
  ['get', '/v1/models', 'Models that can serve'],
  ['get', '/v1/models/{id}', 'One model'],
  ['get', '/v1/models/{id}/ready', 'Whether a model can serve, and what is missing'],
  ['get', '/health', 'Whether the gateway takes requests'],
  ['get', '/live', 'Whether the process lives'],
  ['get', '/ready', 'Whether any model can serve'],
  ['get', '/metrics', 'Prometheus text'],
  ['get', '/busy_threshold', 'When workers count as busy'],
  ['post', '/busy_threshold', 'Change when workers count as busy'],
  ['get', '/workers', 'Workers and their states'],
  ['post', '/workers', 'A worker joins'],
  ['delete', '/workers/{id}', 'A worker leaves at once'],
  ['post', '/workers/{id}/drain', 'A worker takes no new requests and leaves when idle'],
  ['get', '/models/{id}/tokenizer', "Where a model's tokens come from"],
  ['post', '/models/{id}/tokenizer', 'Another tokenizer for a model, while requests run'],
  ['post', '/router', 'The router as a service: new, mark_prefill, mark_free'],
]

/** Where it is not 200 alone. */
const answers: Readonly<Record<string, Readonly<Record<number, string>>>> = {
  'post /workers': {
    201: 'It takes requests',
    202: 'Nobody served its model yet: it waits until its engine was asked',
  },
  'post /workers/{id}/drain': { 202: 'It leaves when idle' },
}

function describe(): object {
  const paths: Record<string, Record<string, object>> = {}
  const add = (method: string, path: string, summary: string, hasBody: boolean): void => {
    const names = [...path.matchAll(/\{(\w+)\}/g)].map((match) => match[1]!)
    ;(paths[path] ??= {})[method] = {
      summary,
      ...(names.length === 0
        ? {}
        : { parameters: names.map((name) => ({ name, in: 'path', required: true, schema: { type: 'string' } })) }),
      ...(hasBody
        ? { requestBody: { required: true, content: { 'application/json': { schema: { type: 'object' } } } } }
        : {}),
      responses: {
        ...Object.fromEntries(
          Object.entries(answers[`${method} ${path}`] ?? { 200: 'OK' }).map(([status, description]) => [
            status,
            { description },
          ]),
        ),
        default: { description: 'An error, with a code of docs/reference/errors.md' },
      },
    }
  }
  for (const row of endpointRows) add('post', row.path, `Forwarded to a worker (${row.endpoint})`, true)
  for (const [method, path, summary] of own) add(method, path, summary, method === 'post' && !path.endsWith('/drain'))
  return { openapi: '3.1.0', info: { title: 'Warmroute', version: '0.1.0' }, paths }
}
