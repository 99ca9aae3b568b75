// What is done on the loop and what in a thread, for requests in every form; that caches change nothing is in cached-tokens.test.ts.
import { afterAll, describe, expect, it, vi } from 'vitest'
import { prose, randomFrom, tokenizerFolder } from '../../../bench/tokens/texts.js'
import type { Body } from '../chat/request.js'
import { TokenPool } from '../pool/pool.js'
import { realTokenizer, tinyllamaFolder } from '../real-tokenizers.case.js'
import { parseTemplate } from '../template/parse.js'
import type { Value } from '../template/values.js'
import { Float } from '../template/values.js'
import { turnsDuring } from '../turns.case.js'
import { loadModel } from './loaded-model.js'
import { ModelTokens } from './model-tokens.js'

const pool = new TokenPool({ threads: 1 })
afterAll(() => pool.close())
const qwen = loadModel(tokenizerFolder('qwen3'), 'loop')

it('does not cut between a word mark and the first character of a text', async () => {
  const model = new ModelTokens(loadModel(tinyllamaFolder, 'marks', 'switched'), pool)
  const start = `\u200d${`\n${' '.repeat(60)}`.repeat(2)} the`
  const first = await model.encode(start, false)
  const second = await model.encode(`${start} the`, false)
  expect(second.slice(0, 5)).toEqual(first.slice(0, 5))
})

it('knows whether an empty text has tokens', async () => {
  const bare = new ModelTokens(qwen, pool)
  const begun = new ModelTokens(loadModel(tinyllamaFolder, 'begun'), pool)
  for (const model of [bare, begun]) expect((await model.encode('', true)).length > 0).toBe(model.fillsEmptyTexts)
  expect([bare.fillsEmptyTexts, begun.fillsEmptyTexts]).toEqual([false, true])
})

it('a parsed body whose values JSON has not has the same tokens in a thread', async () => {
  const order = new Map<string, Value>([
    ['2', new Float(1)],
    ['1', 10n ** 30n],
  ])
  const many = Array.from({ length: 3000 }, (_, at) => `value ${at}`)
  const tool = { name: 'f', description: 'f', parameters: { order, enum: many } }
  const body = { messages: [{ role: 'user', content: 'hi' }], tools: [{ type: 'function', function: tool }] }
  const here = await new ModelTokens(qwen, pool, { loopMsMax: 60_000 }).tokenize('chat', body)
  const before = pool.counts.done
  const there = await new ModelTokens(qwen, pool, { loopMsMax: 0 }).tokenize('chat', body, { deadlineMs: 60_000 })
  expect(pool.counts.done).toBeGreaterThan(before)
  expect([...there.ids]).toEqual([...here.ids])
}, 60_000)

it("a model's first texts have half of the time on the loop", async () => {
  const model = new ModelTokens(qwen, pool, { loopMsMax: 8 })
  let ms = 0
  const clock = vi.spyOn(performance, 'now').mockImplementation(() => (ms += 1))
  const onLoop: number[] = []
  for (let at = 0; at < 14; at++) {
    await model.tokenize('completions', { prompt: prose(6000, 100 + at) }, { deadlineMs: 1e9 })
    onLoop.push(model.counts.onLoop)
  }
  clock.mockRestore()
  expect(onLoop).toEqual([...Array<number>(12).fill(0), 1, 2])
}, 60_000)

describe('a body that is only there as bytes', () => {
  const model = new ModelTokens(qwen, pool)
  const inSteps = new ModelTokens(qwen, pool, { turnUnitsMax: 20 })
  const onLoop = new ModelTokens(qwen, pool) // remembers nothing of theirs
  const tool = { type: 'function', function: { name: 'f', parameters: { properties: { x: { default: 1 } } } } }
  const halves = ['ends in half \ud83d', '\ude00 begins with the other', '', 'é'.repeat(50)]

  it.each<[string, 'chat' | 'completions' | 'responses' | 'messages', Body]>([
    ['a chat with tools', 'chat', { messages: [{ role: 'user', content: 'hi 👍' }], tools: [tool] }],
    [
      'a chat that is cut',
      'chat',
      { messages: [{ role: 'user', content: prose(900, 1) }], truncate_prompt_tokens: 20 },
    ],
    ['a response', 'responses', { input: 'hi', instructions: 'be kind' }],
    ['a message', 'messages', { messages: [{ role: 'user', content: 'hi' }], system: 'be kind', max_tokens: 9 }],
    ['a text', 'completions', { prompt: prose(900, 2) }],
    ['several texts', 'completions', { prompt: halves, truncate_prompt_tokens: 30 }],
    ['texts with marks of their order', 'completions', { prompt: ['\ufeffa', `\ufeff${prose(90, 3)}`, '\ufeff'] }],
    ['a text that is not normal, and empty ones', 'completions', { prompt: ['', 'e\u0301'.repeat(50), '', ''] }],
    ['ids', 'completions', { prompt: [1, 2, 3] }],
    ['several lists of ids', 'completions', { prompt: [[5, 6, 7], [8]], truncate_prompt_tokens: 2 }],
    ['ids of a chat', 'chat', { messages: [], nvext: { token_data: [9, 8, 7] } }],
  ])('has the tokens of the same body: %s', async (_says, route, body) => {
    const raw = new TextEncoder().encode(JSON.stringify(body))
    const here = await onLoop.tokenize(route, body, { raw })
    const { source, exactness, promptCount, totalCount } = here
    for (const thread of [model, inSteps]) {
      const there = await thread.tokenize(route, undefined, { raw })
      expect(there).toMatchObject({ source, exactness, promptCount, totalCount })
      expect([...there.ids]).toEqual([...here.ids])
    }
  })

  it.each<[string, string, string]>([
    ['no JSON', '{"prompt":', 'malformed'],
    ['ids that are none', '{"prompt":[1,-2]}', 'malformed'],
    [
      'an image',
      '{"messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"x"}}]}]}',
      'media-image',
    ],
  ])('ends with a reason: %s', async (_says, text, reason) => {
    const asked = model.tokenize(text.includes('messages') ? 'chat' : 'completions', undefined, {
      raw: new TextEncoder().encode(text),
    })
    await expect(asked).rejects.toMatchObject({ reason })
  })

  it('is refused where copying it would hold the loop', async () => {
    const asked = model.tokenize('chat', undefined, { raw: new Uint8Array((16 << 20) + 1) })
    await expect(asked).rejects.toMatchObject({ code: 'WR_TOKENS_TEXT_TOO_LONG' })
  })
})

it.each([{}, { turnUnitsMax: 10 }])(
  'refuses a text that is longer than it may be, in whatever form it comes: %o',
  async (options) => {
    const model = new ModelTokens(qwen, pool, { textMax: 100, ...options })
    const [fits, long] = ['a '.repeat(50), 'a '.repeat(51)]
    const raw = (prompt: unknown): Uint8Array => new TextEncoder().encode(JSON.stringify({ prompt }))
    const tooLong = { code: 'WR_TOKENS_TEXT_TOO_LONG', details: { lengthMax: 100 } }
    expect((await model.encode(fits, false)).length).toBeGreaterThan(0)
    await expect(model.encode(long, false)).rejects.toMatchObject(tooLong)
    for (const prompt of [long, ['a', long]]) {
      await expect(model.tokenize('completions', { prompt })).rejects.toMatchObject(tooLong)
      await expect(model.tokenize('completions', undefined, { raw: raw(prompt) })).rejects.toMatchObject(tooLong)
    }
    const messages = [{ role: 'user', content: long }]
    const inThread = model.tokenize('chat', undefined, { raw: new TextEncoder().encode(JSON.stringify({ messages })) })
    for (const chat of [model.tokenize('chat', { messages }), inThread])
      await expect(chat).rejects.toMatchObject({ code: 'WR_TOKENS_TEMPLATE_FAILED' })
  },
)

it.each([{}, { turnUnitsMax: 1000 }])(
  'encodes up to 48 KB on the loop, and more in a thread: %o',
  async (options) => {
    const words = prose(60_000, 1)
    for (const [length, onLoop, inThreads] of [
      [48 << 10, 1, 0],
      [(48 << 10) + 1, 0, 1],
    ] as const) {
      const model = new ModelTokens(qwen, pool, { loopMsMax: Infinity, ...options })
      await model.encode(words.slice(0, length), false, { deadlineMs: 60_000 })
      expect(model.counts).toMatchObject({ onLoop, inThreads })
    }
  },
  60_000,
)

it('counts what the caches of a thread did once', async () => {
  const model = new ModelTokens(loadModel(tokenizerFolder('qwen3'), 'counted'), pool, { loopBytesMax: 0 })
  const alone = realTokenizer('qwen3').newEncoder()
  for (const seed of [1, 2, 3]) {
    await model.encode(prose(5000, seed), false, { deadlineMs: 60_000 })
    alone.encode(prose(5000, seed))
  }
  expect(model.counts.inThread).toEqual(alone.counts)
  expect(alone.counts.pieces.hits).toBeGreaterThan(0)
})

it('lets others have their turn of the loop while it encodes a batch, and ends at its deadline', async () => {
  const model = new ModelTokens(qwen, pool)
  const prompt = Array.from({ length: 20_000 }, (_, index) => `${index} bottles`)
  const tokenize = () => model.tokenize('completions', { prompt }, { deadlineMs: 60_000 })
  const { result: tokens, turns } = await turnsDuring(tokenize)
  expect(tokens).toMatchObject({ promptCount: 20_000 })
  expect(turns).toBeGreaterThan(120) // about 130 texts in each
  expect(turns).toBeLessThan(2000) // nor one for each text: that takes several times as long
  const hurried = model.tokenize('completions', { prompt }, { deadlineMs: 0 })
  await expect(hurried).rejects.toMatchObject({ code: 'WR_TOKENS_DEADLINE' })
  const stop = AbortSignal.abort(new Error('the client left'))
  await expect(model.tokenize('completions', { prompt }, { signal: stop })).rejects.toThrow('the client left')
})

it('stays within 32 MB under very many distinct texts, and reports what it forgot', async () => {
  const model = new ModelTokens(qwen, pool, { cacheBytes: 32 << 20 })
  const start = prose(3000, 1)
  for (let index = 0; index < 20_000; index++) {
    await model.encode(`${index} ${start.slice(index % 1000, 1000 + (index % 2000))} ${index * 7919}`, false)
    if (index % 1000 === 0) expect(model.counts.cacheBytes).toBeLessThanOrEqual(32 << 20)
  }
  expect(model.counts.cacheBytes).toBeLessThanOrEqual(32 << 20)
  expect(model.counts.texts.evictions).toBeGreaterThan(0)
})

it('stays within its bytes while every cache is full: pieces, segments, texts and renderings', async () => {
  const cacheBytes = 1 << 20
  const model = new ModelTokens(qwen, pool, { cacheBytes, loopMsMax: Infinity })
  const random = randomFrom(1)
  const word = (): string => Array.from({ length: 6 }, () => String.fromCharCode(97 + random(26))).join('')
  let most = 0
  for (let chat = 0; chat < 600; chat++) {
    const contents = Array.from({ length: 9 }, () => Array.from({ length: 12 }, word).join(' '))
    await model.tokenize('chat', { messages: contents.map((content) => ({ role: 'user', content })) })
    most = Math.max(most, model.counts.cacheBytes)
  }
  expect(most).toBeLessThanOrEqual(cacheBytes)
  expect(most).toBeGreaterThan(0.9 * cacheBytes)
})

it('counts the caches of the threads that there are, and not of one that was ended', async () => {
  const own = new TokenPool({ threads: 1 })
  try {
    const model = new ModelTokens(qwen, own, { loopBytesMax: 0 })
    const encode = (seed: number): Promise<unknown> => model.encode(prose(20_000, seed), false, { deadlineMs: 60_000 })
    await encode(1)
    const held = model.counts.threadCacheBytes!
    expect(held).toBeGreaterThan(0)
    const late = model.encode('q'.repeat(3_000_000), false, { deadlineMs: 1 })
    await expect(late).rejects.toMatchObject({ code: 'WR_TOKENS_DEADLINE' })
    expect(own.counts.ended).toBe(1)
    await encode(2)
    expect(model.counts.threadCacheBytes).toBeLessThan(1.5 * held)
  } finally {
    await own.close()
  }
}, 60_000)

it('of more threads than there can be at a time, it believes those that answered last', async () => {
  const own = new TokenPool({ threads: 2 })
  const run = own.run.bind(own)
  const answers = [
    { thread: 1, bytes: 1000 },
    { thread: 2, bytes: 200 },
    { thread: 1, bytes: 1001 },
    { thread: 3, bytes: 30 }, // in the place of the second
  ]
  const held = answers[Symbol.iterator]()
  vi.spyOn(own, 'run').mockImplementation(async (...task) => {
    const answer: object = await run(...task)
    return { ...answer, held: held.next().value } as never
  })
  try {
    const model = new ModelTokens(qwen, own, { loopBytesMax: 0 })
    for (const [seed] of answers.entries()) await model.encode(prose(2000, seed), false, { deadlineMs: 60_000 })
    expect(model.counts.threadCacheBytes).toBe(1031)
  } finally {
    await own.close()
  }
}, 60_000)

// Neither would be done before the test is given up.
describe('a request that is gone ends the work of a thread for it', () => {
  const endless = '{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}'
  const rendering = {
    ...qwen,
    key: 'gone',
    templates: [{ name: 'default', source: endless, parsed: parseTemplate(endless) }],
  }
  const raw = new TextEncoder().encode(JSON.stringify({ messages: [{ role: 'user', content: 'hi' }] }))
  const limits = { deadlineMs: 600_000 }

  it.each<[string, (signal: AbortSignal) => Promise<unknown>]>([
    ['a text', (signal) => new ModelTokens(qwen, pool).encode('q'.repeat(3_900_000), false, { ...limits, signal })],
    ['a chat', (signal) => new ModelTokens(rendering, pool).tokenize('chat', undefined, { ...limits, raw, signal })],
  ])('%s', async (_says, work) => {
    const stop = new AbortController()
    const held = expect(work(stop.signal)).rejects.toThrow('gone')
    setTimeout(() => stop.abort(new Error('gone')), 20)
    await held
    expect(pool.running).toBe(0)
  })
})

it('a thread that renders has a moment more than its template, and so need not be ended where that is late', async () => {
  const run = vi.spyOn(pool, 'run')
  const raw = new TextEncoder().encode(JSON.stringify({ messages: [{ role: 'user', content: 'hi' }] }))
  await new ModelTokens(qwen, pool).tokenize('chat', undefined, { raw, deadlineMs: 60_000 })
  const [name, task, limits] = run.mock.calls[0]!
  run.mockRestore()
  expect([name, task]).toMatchObject(['render', { deadlineMs: 60_000 }])
  expect(limits.deadlineMs).toBe(60_100)
})

it.each<['chat' | 'completions', Body]>([
  ['chat', { messages: [{ role: 'user', content: 'one two three four' }], add_special_tokens: true }],
  ['completions', { prompt: 'one two three four five' }],
])('what is cut keeps the special tokens around it: %s', async (route, body) => {
  const template = '{{ messages[0].content }}'
  const begun = loadModel(tinyllamaFolder, 'cut')
  const templates = [{ name: 'default', source: template, parsed: parseTemplate(template) }]
  const model = new ModelTokens({ ...begun, templates }, pool)
  const whole = (await model.tokenize(route, body)).ids
  const cut = (await model.tokenize(route, { ...body, truncate_prompt_tokens: 3 })).ids
  expect([...cut]).toEqual([whole[0], ...whole.slice(-2)])
  expect(whole[0]).toBe(1)
})

it('of several texts that are cut, what is left of each is counted', async () => {
  const model = new ModelTokens(qwen, pool)
  const prompt = ['one two three four', 'five six seven eight', 'nine ten']
  const whole = await model.tokenize('completions', { prompt })
  const cut = await model.tokenize('completions', { prompt, truncate_prompt_tokens: 2 })
  expect(whole).toMatchObject({ promptCount: 3, totalCount: 4 + 4 + 2 })
  expect(cut).toMatchObject({ promptCount: 3, totalCount: 2 + 2 + 2 })
})
