/** Recorded exchanges of a real engine put to a simulated one: same status, same headers, same shape of the answer. */
import { readFileSync } from 'node:fs'
import { gunzipSync } from 'node:zlib'
import { expect } from 'vitest'

export interface RecordedExchange {
  readonly server?: string
  readonly step: string
  readonly request: {
    readonly method: string
    readonly path: string
    readonly headers: Readonly<Record<string, string>>
    readonly body: unknown
  }
  readonly status: number
  readonly response_headers: readonly (readonly [string, string])[]
  readonly response_text: string
  /** The answer broke off. */
  readonly is_cut?: true
}

export function readExchanges(file: string): RecordedExchange[] {
  return gunzipSync(readFileSync(`test/fixtures/${file}`))
    .toString()
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line) as RecordedExchange & { kind: string })
    .filter(({ kind }) => kind === 'http')
}

/** Answers with what the simulated engine said. */
export async function expectSameAnswer(url: string, recorded: RecordedExchange): Promise<string> {
  const { method, path, headers, body } = recorded.request
  const raw = (body as { _raw?: string } | null)?._raw
  const reply = await fetch(url + path, {
    method,
    headers: { ...headers },
    body: body === null || method === 'GET' ? null : (raw ?? JSON.stringify(body)),
    signal: AbortSignal.timeout(20_000),
  })
  const text = await reply.text().catch((error: unknown) => {
    if (recorded.is_cut) return ''
    throw error
  })
  expect(reply.status, text.slice(0, 300)).toBe(recorded.status)
  for (const [name, value] of recorded.response_headers)
    if (['content-type', 'allow', 'server', 'vary', 'endpoint-load-metrics'].includes(name.toLowerCase()))
      expect(reply.headers.get(name), name).toBe(value)
  expect(shapeOf(text)).toEqual(shapeOf(recorded.response_text))
  return text
}

/** Keys in order, and of values only what they are: a number, a string, null. Errors keep their words. */
function shapeOf(text: string): unknown {
  if (/^(data|event): /.test(text)) return streamShape(text)
  if (!/^[{["]/.test(text)) return text
  return valueShape(JSON.parse(text), '')
}

function streamShape(text: string): unknown {
  const chunks = text
    .split('\n\n')
    .filter((chunk) => chunk !== '')
    .map((chunk) =>
      chunk.split('\n').map((line) => {
        if (!line.startsWith('data: {')) return line
        return ['data', valueShape(JSON.parse(line.slice(6)), '')]
      }),
    )
  // How many tokens one delta of the Responses API carries is a matter of timing.
  const isDelta = (chunk: unknown): boolean => JSON.stringify(chunk).startsWith('["event: response.output_text.delta"')
  return chunks.filter((chunk, index) => !isDelta(chunk) || !isDelta(chunks[index - 1] ?? ''))
}

function valueShape(value: unknown, key: string): unknown {
  if (Array.isArray(value)) return value.length === 0 ? [] : [valueShape(value[0], key)]
  if (typeof value === 'object' && value !== null)
    return Object.entries(value).map(([name, it]) => [name, valueShape(it, name)])
  // What a client acts on is compared as it is; numbers inside messages are not.
  if (
    /^(type|object|role|finish_reason|stop_reason|status|param|owned_by|code|message|detail)$/.test(key) &&
    typeof value === 'string'
  )
    return value.replaceAll(/\d+/g, '#')
  return value === null ? null : typeof value
}
