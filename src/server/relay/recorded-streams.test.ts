import { readdirSync, readFileSync } from 'node:fs'
import { gunzipSync } from 'node:zlib'
import { expect, it } from 'vitest'
import type { Endpoint } from '../request/endpoints.js'
import { StreamWatch } from './stream-watch.js'

// Goal: without a usage we count the tokens that the engine would have reported. Where that cannot be, it is named here.
const otherwise: Readonly<Record<string, { readonly counted: number; readonly why: string }>> = {
  'vllm responses-stream': { counted: 3, why: 'two tokens were put into one event' },
  'sglang chat-logprobs': { counted: 3, why: 'two tokens were put into one event' },
  'sglang thoughts-logprobs': { counted: 3, why: 'two tokens were put into one event' },
  'sglang chat-stop-string': {
    counted: 5,
    why: 'the token that held the stop string was sent in part, and then its end',
  },
}

interface Exchange {
  readonly step: string
  readonly request: { readonly path: string }
  readonly response_text?: string
}

function recordedStreams(): { readonly says: string; readonly endpoint: Endpoint; readonly text: string }[] {
  return ['vllm', 'sglang'].flatMap((engine) => {
    const folder = `test/fixtures/${engine}`
    const files = readdirSync(folder).filter((name) => name.endsWith('.jsonl.gz'))
    const lines = files.flatMap((name) =>
      gunzipSync(readFileSync(`${folder}/${name}`))
        .toString('utf8')
        .split('\n'),
    )
    return lines
      .filter((line) => line.includes('"response_text"') && /"(?:data|event): ?/.test(line))
      .map((line) => JSON.parse(line) as Exchange)
      .flatMap(({ step, request, response_text: text = '' }) => {
        const endpoint = endpointOf(request.path)
        return endpoint ? [{ says: `${engine} ${step}`, endpoint, text }] : []
      })
  })
}

function endpointOf(path: string): Endpoint | undefined {
  if (path.startsWith('/v1/chat/completions')) return 'chat_completions'
  if (path.startsWith('/v1/completions')) return 'completions'
  if (path.startsWith('/v1/messages')) return 'anthropic_messages'
  if (path.startsWith('/v1/responses')) return 'responses'
  return path === '/generate' ? 'generate' : undefined
}

function countIn(
  endpoint: Endpoint,
  text: string,
): { readonly counted: number; readonly reported: number | undefined } {
  const watch = new StreamWatch(endpoint)
  const bytes = Buffer.from(text)
  return { counted: watch.push(bytes, 0, bytes.length), reported: watch.usage?.outputTokens }
}

const streams = recordedStreams().filter(({ endpoint, text }) => countIn(endpoint, text).reported !== undefined)

it('there are recordings of every kind of stream, and of all that are named here', () => {
  expect(new Set(streams.map(({ endpoint }) => endpoint)).size).toBe(5)
  expect(streams.map(({ says }) => says)).toEqual(expect.arrayContaining(Object.keys(otherwise)))
})

it.each(streams)('$says', ({ says, endpoint, text }) => {
  const { counted, reported } = countIn(endpoint, text)
  const exception = otherwise[says]
  expect(counted).toBe(exception?.counted ?? reported)
  if (exception) expect(counted).not.toBe(reported)
})
