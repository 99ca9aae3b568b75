import { expect, it } from 'vitest'
import { asStream, outputTokensOf, terminalAnswer } from './terminal-answer.js'

const answer = (finish_reason: string | null, more: object = {}): Buffer =>
  Buffer.from(
    JSON.stringify({
      id: 'chatcmpl-1',
      object: 'chat.completion',
      created: 7,
      model: 'm',
      choices: [
        { index: 0, message: { role: 'assistant', content: '' }, logprobs: null, finish_reason, stop_reason: null },
      ],
      usage: { prompt_tokens: 9, completion_tokens: 1, total_tokens: 10 },
      kv_transfer_params: { do_remote_prefill: true },
      ...more,
    }),
  )

it('a stop at the first token is the answer, without its parameters', () => {
  const whole = terminalAnswer({}, answer('stop'))!
  expect(JSON.parse(whole.toString())).toEqual({ ...JSON.parse(answer('stop').toString()), kv_transfer_params: null })
  expect(outputTokensOf(whole)).toBe(1)
})

it.each(['stop', 'content_filter'])('%s without parameters is the answer, byte for byte', (reason) => {
  const bytes = answer(reason, { kv_transfer_params: undefined })
  expect(terminalAnswer({}, bytes)).toBe(bytes)
})

it.each<[string, Record<string, unknown>, Buffer]>([
  ['the limit of one token', {}, answer('length')],
  ['an abort', {}, answer('abort')],
  ['no reason', {}, answer(null)],
  ['a stop where the client wants more', { min_tokens: 4 }, answer('stop')],
  ['no choices', {}, answer('stop', { choices: [] })],
  ['a choice of nothing', {}, answer('stop', { choices: [null] })],
  ['no JSON', {}, Buffer.from('{"choices":[}')],
])('%s is not', (_says, asked, bytes) => expect(terminalAnswer(asked, bytes)).toBeUndefined())

it('becomes a stream where one was asked for', () => {
  const frames = (text: string): unknown[] =>
    text
      .split('\n\n')
      .filter((line) => line.startsWith('data: {'))
      .map((line) => JSON.parse(line.slice(6)) as unknown)
  const chat = asStream(terminalAnswer({}, answer('content_filter'))!, true)
  expect(chat.endsWith('data: [DONE]\n\n')).toBe(true)
  expect(frames(chat)).toMatchObject([
    { object: 'chat.completion.chunk', choices: [{ delta: { role: 'assistant', content: '' }, finish_reason: null }] },
    { choices: [{ delta: {}, finish_reason: 'content_filter' }] },
    { choices: [], usage: { completion_tokens: 1 } },
  ])
  const choices = [{ index: 0, text: 'x', finish_reason: 'stop' }]
  const text = asStream(terminalAnswer({}, answer('stop', { object: 'text_completion', choices }))!, false)
  expect(frames(text)).toMatchObject([{ object: 'text_completion', choices }])
})
