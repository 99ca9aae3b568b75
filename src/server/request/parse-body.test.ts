import fc from 'fast-check'
import { expect, it } from 'vitest'
import { WarmrouteError } from '../../core/protocol/index.js'
import type { Steps } from '../steps.js'
import { takeSteps } from '../steps.js'
import { textsLeft } from './kept-texts.js'
import { parseBody, unread } from './parse-body.js'

const filler = 'x'.repeat(40_000)

/** Every step at once. */
function take<T>(steps: Steps<T>): T {
  for (;;) {
    const step = steps.next()
    if (step.done) return step.value
  }
}

function parse(text: string): Readonly<Record<string, unknown>> {
  return take(parseBody(Buffer.from(text), 128)).body
}

// Goal: of a long body every field that is read is read as JSON.parse would. Method: the same object, short and long.
it('reads the same of a long body as of a short one, except for long texts', () => {
  const names = fc.constantFrom('model', 'stream', 'nvext', 'priority', 'n', '__proto__', 'ä"\\')
  fc.assert(
    fc.property(fc.dictionary(names, fc.jsonValue({ maxDepth: 3 })), fc.constantFrom(undefined, 1), (object, space) => {
      const long = JSON.stringify({ ...object, messages: [{ role: 'user', content: filler }] }, undefined, space)
      const body = parse(long)
      const whole = JSON.parse(long) as Record<string, unknown>
      const own = Buffer.from(JSON.stringify(object))
      const hasFew = textsLeft(own, 0, own.length, 64) >= 0
      for (const name of Object.keys(whole))
        if (name !== 'messages' && (hasFew || body[name] !== unread)) expect(body[name]).toEqual(whole[name])
      expect(body['messages']).toBe(unread)
    }),
  )
})

it.each([8_000, 20_000, 300_000])('reads %d token ids, and batches of them', (count) => {
  const ids = Array.from({ length: count }, (_, at) => at)
  const asList = (value: unknown): unknown => [...(value as Iterable<unknown>)]
  expect(asList(parse(JSON.stringify({ model: 'm', prompt: ids }))['prompt'])).toEqual(ids)
  const batch = parse(JSON.stringify({ model: 'm', prompt: [ids, [7]] }))['prompt'] as unknown[]
  expect(batch.map(asList)).toEqual([ids, [7]])
})

it('leaves a field that is too long unread, whatever its name', () => {
  const body = parse(JSON.stringify({ model: 'm', metadata: { filler: filler + filler }, n: 2 }))
  expect(body).toMatchObject({ model: 'm', n: 2 })
  expect(body['metadata']).toBe(unread)
})

// Parsing such a body at once takes 20 to 90 ms a megabyte: a thread has to.
it.each([
  ['a text of 200 KB', JSON.stringify({ model: 'm', prompt: 'word '.repeat(40_000) }), true],
  [
    'a chat of 400 messages',
    JSON.stringify({ model: 'm', messages: Array(400).fill({ role: 'user', content: 'x'.repeat(500) }) }),
    true,
  ],
  ['a text of a megabyte', JSON.stringify({ model: 'm', prompt: 'word '.repeat(200_000) }), false],
  ['empty lists', JSON.stringify({ model: 'm', messages: Array(20_000).fill([]) }), false],
  [
    'names that differ',
    JSON.stringify({ model: 'm', tools: Array.from({ length: 10_000 }, (_, at) => ({ [`k${at}`]: 1 })) }),
    false,
  ],
])('knows whether %s may be parsed on the loop', (_says, text, isLight) => {
  expect(take(parseBody(Buffer.from(text), 128)).isLight).toBe(isLight)
})

it('reads what is short at once, and what is long in later turns of the loop', async () => {
  expect(takeSteps(parseBody(Buffer.from(`{"model":"m","prompt":"${filler}"}`), 128))).not.toBeInstanceOf(Promise)
  const ids = JSON.stringify({ model: 'm', prompt: Array.from({ length: 300_000 }, (_, at) => at) })
  let turns = 0
  const count = setInterval(() => turns++, 0)
  const reading = takeSteps(parseBody(Buffer.from(ids), 128))
  expect(reading).toBeInstanceOf(Promise)
  expect((await reading).body['prompt']).toHaveLength(300_000)
  clearInterval(count)
  expect(turns).toBeGreaterThan(0)
})

it.each([
  ['no object', `["${filler}"]`],
  ['a body that ends early', `{"messages":"${filler}"`],
  ['a short field that is no JSON', `{"messages":"${filler}","n":truth}`],
  ['deep nesting in a long field', `{"messages":${'['.repeat(20_000)}${']'.repeat(20_000)}}`],
  ['deep nesting beside a long field', `{"a":${'['.repeat(200)}${']'.repeat(200)},"messages":"${filler}"}`],
])('refuses %s', (_says, text) => {
  expect(() => parse(text)).toThrow(WarmrouteError)
})

it('refuses a long body that is not UTF-8', () => {
  const bytes = Buffer.concat([Buffer.from(`{"messages":"${filler}`), Buffer.from([0xff]), Buffer.from('"}')])
  expect(() => take(parseBody(bytes, 128))).toThrow(WarmrouteError)
})

it('is not fooled by brackets in a text', () => {
  expect(parse(JSON.stringify({ model: 'm', messages: [{ content: `${'['.repeat(300)}"${filler}` }] }))['model']).toBe(
    'm',
  )
})

// Goal: a batch of texts that is too long to be read has as many prompts as JSON.parse would find.
it('counts the texts of a batch that it does not read, whatever they say', () => {
  const text = fc.oneof(fc.string(), fc.constantFrom('"', '\\', '\\"', '\\\\', '","', '[', ']', 'ä', '\n'))
  const fields = fc.constantFrom('prompt', 'text')
  fc.assert(
    fc.property(fields, fc.array(text), fc.constantFrom(undefined, 1), (name, texts, space) => {
      const batch = [...texts, filler, ...texts]
      const body = parse(JSON.stringify({ model: 'm', [name]: batch, n: 1 }, undefined, space))
      expect(body[name]).toEqual(batch.map(() => unread))
      expect(body['n']).toBe(1)
    }),
  )
})

it.each([
  ['one text', filler],
  ['messages', [{ role: 'user', content: filler }]],
])('%s is no batch', (_says, prompt) => {
  expect(parse(JSON.stringify({ prompt }))['prompt']).toBe(unread)
})

it('counts no more prompts than a batch of ids may have', () => {
  const prompt = Array.from({ length: 5000 }, () => 'a text that is long enough')
  expect(parse(JSON.stringify({ prompt }))['prompt']).toHaveLength(4096)
})

const fresh = (count: number, tag: string): string[] => Array.from({ length: count }, (_, at) => `${tag}${at}`)

it('leaves to threads what would make V8 keep many new texts, however short the body is', () => {
  const stop = fresh(3000, 'stop')
  const parsed = take(parseBody(Buffer.from(JSON.stringify({ model: 'm', stop, n: 2, stream: true })), 128))
  expect(parsed).toMatchObject({
    isWhole: false,
    isLight: false,
    body: { model: 'm', stop: unread, n: 2, stream: true },
  })
  const messages = fresh(600, 'said').map((content) => ({ role: 'user', content }))
  const chat = take(parseBody(Buffer.from(JSON.stringify({ model: 'm', messages })), 128))
  expect(chat).toMatchObject({ isWhole: false, isLight: false, body: { model: 'm', messages: unread } })
  const long = { model: 'm', messages: [...fresh(900, 'told').map((content) => ({ role: 'user', content })), filler] }
  expect(take(parseBody(Buffer.from(JSON.stringify(long)), 128)).isLight).toBe(false)
})

it('reads a field of one text behind one of many', () => {
  const metadata = Object.fromEntries(fresh(300, 'meta').map((name) => [name, 1]))
  const parsed = take(
    parseBody(Buffer.from(JSON.stringify({ model: 'm', metadata, user: 'newest', suffix: 'last' })), 128),
  )
  expect(parsed.body).toMatchObject({ model: 'm', user: 'newest', suffix: 'last' })
})

it('parses at once what it has seen lately, and what has few texts or long ones', () => {
  const tools = fresh(300, 'name').map((name) => ({ type: 'function', function: { name } }))
  const isWhole = (body: unknown): boolean => take(parseBody(Buffer.from(JSON.stringify(body)), 128)).isWhole
  expect(isWhole({ model: 'm', tools })).toBe(false)
  for (let again = 0; again < 8; again++) isWhole({ model: 'm', tools })
  expect(isWhole({ model: 'm', tools })).toBe(true)
  expect(isWhole({ model: 'm', stop: fresh(60, 'few') })).toBe(true)
  expect(isWhole({ model: 'm', stop: fresh(1000, 'many words, each ') })).toBe(true)
})

// What is said of a body must not hang on what came before it, though what is parsed of it does.
it.each([
  [
    'sampling_params',
    { sampling_params: { stop: fresh(300, 's') } },
    'sampling_params has more than 256 names and texts',
  ],
  [
    'vllm_xargs',
    { vllm_xargs: Object.fromEntries(fresh(257, 'x').map((name) => [name, 1])) },
    'vllm_xargs has more than',
  ],
  [
    'all of them',
    { model: 'm', stream_options: fresh(128, 'o'), vllm_xargs: fresh(128, 'p') },
    'has more than 256 names',
  ],
  ['fields', Object.fromEntries(fresh(257, 'field').map((name) => [name, 1])), 'the body has more than 256 fields'],
])('refuses the same each time: %s', (_what, body, says) => {
  for (let again = 0; again < 12; again++) expect(() => parse(JSON.stringify(body))).toThrow(says)
  const long = JSON.stringify({ ...body, messages: filler })
  for (let again = 0; again < 3; again++) expect(() => parse(long)).toThrow(says)
})
