import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { chatFrames } from '../fake-engine.case.js'
import { EventEditor, UsageRemoval, withMember } from './event-editor.js'
import { StreamWatch } from './stream-watch.js'
import { readUsage } from './usage.js'

const usage = { prompt_tokens: 9, completion_tokens: 4, prompt_tokens_details: { cached_tokens: 8 } }

function pieces(text: string, places: readonly number[]): Buffer[] {
  const bytes = Buffer.from(text)
  const sorted = [...new Set(places.map((place) => place % bytes.length))].sort((a, b) => a - b)
  return [0, ...sorted].map((start, at) => bytes.subarray(start, [...sorted, bytes.length][at]))
}

// Goal: cutting a stream anywhere changes nothing of what is seen in it.
it('counts the same tokens and reads the same usage however the stream is cut', () => {
  const text = chatFrames('m', usage).join('')
  fc.assert(
    fc.property(fc.array(fc.nat(4000), { maxLength: 30 }), (places) => {
      const watch = new StreamWatch('chat_completions')
      let tokens = 0
      for (const piece of pieces(text, places)) tokens += watch.push(piece, 0, piece.length)
      expect(tokens).toBe(4)
      expect(watch.usage).toEqual({ promptTokens: 9, outputTokens: 4, cachedTokens: 8 })
      expect(watch.hasFinished).toBe(true)
      expect(watch.isBetweenEvents).toBe(true)
    }),
  )
})

it.each([
  {
    says: "SGLang's first event has what it found in its cache, its last has none of it",
    opening: { input_tokens: 28, output_tokens: 0, cache_read_input_tokens: 128 },
    last: { output_tokens: 2 },
    usage: { promptTokens: 28, outputTokens: 2, cachedTokens: 128 },
  },
  {
    says: "vLLM's last event has the last word",
    opening: { input_tokens: 40, output_tokens: 0 },
    last: { input_tokens: 8, output_tokens: 2, cache_read_input_tokens: 32 },
    usage: { promptTokens: 8, outputTokens: 2, cachedTokens: 32 },
  },
])('$says', ({ opening, last, usage }) => {
  const watch = new StreamWatch('anthropic_messages')
  const bytes = Buffer.from(
    `event: message_start\ndata: ${JSON.stringify({ type: 'message_start', message: { usage: opening } })}\n\n` +
      `event: message_delta\ndata: ${JSON.stringify({ type: 'message_delta', usage: last })}\n\n`,
  )
  watch.push(bytes, 0, bytes.length)
  expect(watch.usage).toEqual(usage)
})

it("several choices of SGLang's own route each count for themselves: what was seen of all is more than what the last says", () => {
  const event = (index: number, tokens: number): string =>
    `data: {"text":"a","index":${index},"meta_info":{"prompt_tokens":3,"completion_tokens":${tokens},"cached_tokens":0}}\n\n`
  const said = (text: string): unknown => {
    const watch = new StreamWatch('generate')
    watch.push(Buffer.from(text), 0, text.length)
    return watch.usage
  }
  const prompt = { promptTokens: 3, cachedTokens: 0 }
  expect(said(event(0, 1) + event(1, 1) + event(0, 2) + event(1, 2))).toEqual({ ...prompt, outputTokens: undefined })
  expect(said(event(0, 4) + event(0, 8))).toEqual({ ...prompt, outputTokens: 8 }) // four tokens in each event
})

it('takes the usage out and nothing else, however the stream is cut', () => {
  const text = chatFrames('m', usage).join('')
  fc.assert(
    fc.property(fc.array(fc.nat(4000), { maxLength: 30 }), (places) => {
      const editor = new EventEditor(new UsageRemoval())
      const out = pieces(text, places).map((piece) => editor.push(piece)?.toString() ?? '')
      expect(out.join('') + (editor.rest()?.toString() ?? '')).toBe(chatFrames('m').join(''))
    }),
  )
})

it('gives the last event its fingerprint back, which the usage took with it', () => {
  const last = 'data: {"choices":[{"text":"a","finish_reason":"stop"}]}\n\n'
  const usageEvent = 'data: {"choices":[],"usage":{"prompt_tokens":1},"system_fingerprint":"fp"}\n\n'
  const editor = new EventEditor(new UsageRemoval())
  const out = [last, usageEvent, 'data: [DONE]\n\n'].map((event) => editor.push(Buffer.from(event))?.toString() ?? '')
  expect(out.join('')).toBe(
    'data: {"choices":[{"text":"a","finish_reason":"stop"}],"system_fingerprint":"fp"}\n\ndata: [DONE]\n\n',
  )
})

it.each([
  'data: {"choices": [], "usage": {"prompt_tokens": 1}, "system_fingerprint": "fp"}\n\n',
  'data: {"usage" : {"prompt_tokens":1},"choices":[ ],"system_fingerprint" :"fp"}\r\n\r\n',
])('takes the usage out however its JSON is spaced: %j', (usageEvent) => {
  const last = 'data: {"choices": [{"text": "a", "finish_reason" : "stop"}]}\n\n'
  const editor = new EventEditor(new UsageRemoval())
  const out = [last, usageEvent, 'data: [DONE]\n\n'].map((event) => editor.push(Buffer.from(event))?.toString() ?? '')
  expect(out.join('')).toMatch(
    /^data: {"choices": \[{"text": "a", "finish_reason" : "stop"}\],"system_fingerprint" ?: ?"fp"}\n\ndata: \[DONE\]\n\n$/,
  )
})

it.each([
  ['a chat', '{"choices":[{"delta":{"content":"a"}}]}'],
  ['nothing', '{"choices":[{"delta":{"role":"assistant"}}]}'],
])('an error that the engine reports in the stream is seen after %s', (_, first) => {
  const watch = new StreamWatch('chat_completions')
  const bytes = Buffer.from(`data: ${first}\n\ndata: {"error": {"message": "CUDA", "code": 500}}\n\ndata: [DONE]\n\n`)
  watch.push(bytes, 0, bytes.length)
  expect(watch).toMatchObject({ hasError: true, hasFinished: true })
})

it('a token whose event begins with another key is no error', () => {
  const watch = new StreamWatch('completions')
  const bytes = Buffer.from(
    'data: {"choices":[{"text":"a"}]}\n\ndata: {"extra":1,"choices":[{"text":"\\"error\\""}]}\n\n',
  )
  expect(watch.push(bytes, 0, bytes.length)).toBe(2)
  expect(watch.hasError).toBe(false)
})

describe('what counts as a token behind the first', () => {
  const first = 'data: {"choices":[{"index":0,"delta":{"content":"a"},"finish_reason":null}]}\n\n'
  const choice = (fields: string): string => `data: {"choices":[{"index":0,${fields}}]}\n\n`

  it.each([
    ['text', choice('"delta":{"content":"b"},"finish_reason":null'), 1],
    ['a step whose text is held back', choice('"delta":{"content":""},"finish_reason":null'), 1],
    // SGLang has sent the last token already; vLLM says the reason beside it.
    ['an end by length, behind its token', choice('"delta":{"reasoning_content":null},"finish_reason":"length"'), 0],
    ['an end by length without a delta', choice('"delta":{},"finish_reason": "length"'), 0],
    ['an end by length with its token', choice('"delta":{"content":"b"},"finish_reason":"length"'), 1],
    ['an end by length in half a character', choice('"delta":{"content":""},"finish_reason":"length"'), 1],
    ['an end by length, text', choice('"text":"","finish_reason":"length"'), 1],
    ['an abort', choice('"delta":{},"finish_reason":"abort"'), 0],
    // The token that ended the answer has no text, and no event but this.
    ['an end by a token', choice('"delta":{},"finish_reason":"stop"'), 1],
    ['an end behind calls', choice('"delta":{},"finish_reason":"tool_calls"'), 1],
    ['the role of a second choice', choice('"delta":{"role":"assistant","content":""},"finish_reason":null'), 0],
    ['no role and no text yet', choice('"delta":{"role":null,"content":""},"finish_reason":null'), 1],
    ['a role beside its text', choice('"delta":{"role":"assistant","content":"b"},"finish_reason":null'), 1],
    ['a text that reads like a reason', choice('"delta":{"content":"length"},"finish_reason":null'), 1],
    ['arguments of a call', choice('"delta":{"tool_calls":[{"function":{"arguments":"{"}}]},"finish_reason":null'), 1],
    ['a usage alone', 'data: {"choices":[],"usage":{"completion_tokens":1}}\n\n', 0],
    ['a comment', ': keep-alive\n\n', 0],
  ])('%s', (_says, event, tokens) => {
    const watch = new StreamWatch('chat_completions')
    const both = Buffer.from(first + event)
    expect(watch.push(both, 0, both.length)).toBe(1 + tokens)
  })
})

describe('what counts as a token', () => {
  it.each([
    [
      'a role alone is none',
      'chat_completions',
      'data: {"choices":[{"delta":{"role":"assistant","content":""}}]}\n\n',
      0,
    ],
    ['text', 'chat_completions', 'data: {"choices":[{"delta":{"content":"a"}}]}\n\n', 1],
    ['reasoning', 'chat_completions', 'data: {"choices":[{"delta":{"reasoning_content":"a"}}]}\n\n', 1],
    [
      'a tool call',
      'chat_completions',
      'data: {"choices":[{"delta":{"tool_calls":[{"function":{"name":"f"}}]}}]}\n\n',
      1,
    ],
    ['completion text', 'completions', 'data: {"choices":[{"text":"a"}]}\n\n', 1],
    ['a comment is none', 'chat_completions', ':\n\n', 0],
    ['events with CRLF', 'completions', 'data: {"choices":[{"text":"a"}]}\r\n\r\n', 1],
    ['a block delta', 'anthropic_messages', 'event: content_block_delta\ndata: {"delta":{"text":"a"}}\n\n', 1],
    ['a message start is none', 'anthropic_messages', 'event: message_start\ndata: {}\n\n', 0],
    ['a text delta', 'responses', 'event: response.output_text.delta\ndata: {"delta":"a"}\n\n', 1],
    ["SGLang's own route", 'generate', 'data: {"text":"a","meta_info":{"prompt_tokens":3}}\n\n', 1],
  ] as const)('%s', (_says, endpoint, text, tokens) => {
    expect(new StreamWatch(endpoint).push(Buffer.from(text), 0, text.length)).toBe(tokens)
  })

  it('sees an error inside a stream', () => {
    const watch = new StreamWatch('chat_completions')
    const text = 'data: {"error":{"message":"x","code":500}}\n\n'
    expect(watch.push(Buffer.from(text), 0, text.length)).toBe(0)
    expect(watch.hasError).toBe(true)
  })

  it('does not keep an endless event', () => {
    const watch = new StreamWatch('completions')
    const part = Buffer.from('x'.repeat(100_000))
    for (let at = 0; at < 10; at++) watch.push(part, 0, part.length)
    expect(watch.push(Buffer.from('\n\ndata: {"choices":[{"text":"a"}]}\n\n'), 0, 37)).toBeGreaterThan(0)
  })
})

describe('usage', () => {
  it.each([
    ['OpenAI', '{"usage":{"prompt_tokens":5,"completion_tokens":2}}', [5, 2, undefined]],
    [
      'Responses',
      '{"response":{"usage":{"input_tokens":5,"output_tokens":2,"input_tokens_details":{"cached_tokens":4}}}}',
      [5, 2, 4],
    ],
    ['Anthropic', '{"usage": {"input_tokens":5,"output_tokens":2,"cache_read_input_tokens":3}}', [5, 2, 3]],
    ['SGLang', '{"text":"x","meta_info":{"prompt_tokens":5,"completion_tokens":2,"cached_tokens":1}}', [5, 2, 1]],
  ])('of %s', (_says, text, [promptTokens, outputTokens, cachedTokens]) => {
    expect(readUsage(text)).toEqual({ promptTokens, outputTokens, cachedTokens })
  })

  it('is not fooled by a look-alike in the text', () => {
    const text = JSON.stringify({ usage: { prompt_tokens: 5 }, choices: [{ text: '"usage":{"prompt_tokens":99}' }] })
    expect(readUsage(text)?.promptTokens).toBe(5)
  })

  it('never throws, whatever the text', () => {
    const part = fc.constantFrom('"usage"', ':', '{', '}', '"', '\\', '1', 'null', ' ')
    fc.assert(fc.property(fc.array(part, { maxLength: 20 }), (parts) => void readUsage(parts.join(''))))
  })
})

it('puts a member at the end of an event', () => {
  expect(withMember(Buffer.from('data: {"a":1}\n\n'), '"n":2').toString()).toBe('data: {"a":1,"n":2}\n\n')
  expect(withMember(Buffer.from('data: {}\n\n'), '"n":2').toString()).toBe('data: {"n":2}\n\n')
  expect(withMember(Buffer.from(': hi }\n\n'), '"n":2').toString()).toBe(': hi }\n\n')
  expect(withMember(Buffer.from('data: [DONE]\n\n'), '"n":2').toString()).toBe('data: [DONE]\n\n')
})
