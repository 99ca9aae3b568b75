// The service with its real threads: loading, cold texts, bombs, deadlines, replacement.
import { cpSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { monitorEventLoopDelay } from 'node:perf_hooks'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { prose, randomFrom, tokenizerFolder } from '../../bench/tokens/texts.js'
import { createBlockHasher, createHashScheme } from '../core/hashing/index.js'
import type { Body } from './chat/request.js'
import { changedTokenizer, realTokenizer, tinyllamaFolder } from './real-tokenizers.case.js'
import type { LoadOnly } from './load-only.js'
import { TokenService } from './token-service.js'
import { Tokens } from './tokens.js'

const service = new TokenService({ threads: 2, queueMax: 4 })
beforeAll(async () => {
  await service.setModel('tiny', { path: tinyllamaFolder })
  await service.setModel('qwen', { path: tokenizerFolder('qwen3') })
}, 60_000)
afterAll(() => service.close())
const patient = { deadlineMs: 60_000 }

async function complete(model: string, prompt: string): Promise<Tokens> {
  const result = await service.tokenizeRequest(model, 'completions', { prompt })
  if (!(result instanceof Tokens)) throw new Error(`${result.loadOnly}: ${result.detail}`)
  return result
}

it('says which source serves a model', () => {
  expect(service.status('tiny')).toMatchObject({ source: 'configured', encoder: 'own', from: tinyllamaFolder })
  expect(service.status('other')).toMatchObject({ source: 'none', encoder: 'none' })
})

it('answers load-only for a model without a source', async () => {
  expect(await service.tokenizeRequest('other', 'chat', {})).toMatchObject({ loadOnly: 'no-tokenizer' })
  expect(service.counts.loadOnly['no-tokenizer']).toBeGreaterThan(0)
})

describe('a cold long text', () => {
  it('goes to a thread, and its ids and hashes are those of the Rust binding', async () => {
    const text = prose(120_000, 3)
    const before = service.counts.models['qwen']!.inThreads
    const tokens = await complete('qwen', text)
    expect(service.counts.models['qwen']!.inThreads).toBe(before + 1)
    expect([...tokens.ids]).toEqual(await realTokenizer('qwen3').oracle(text))
  })

  it('is remembered: of what continues it the rest alone is encoded, with the same hashes as from nothing', async () => {
    const text = prose(120_000, 4)
    const longer = `${text.slice(0, 110_000)}${prose(9000, 5)}`
    const scheme = createHashScheme({ blockSize: 16 })
    const hasher = createBlockHasher()
    ;(await complete('qwen', text)).blockHashes(scheme, hasher)
    const before = service.counts.models['qwen']!.texts.hits
    const tokens = await complete('qwen', longer)
    expect(service.counts.models['qwen']!.texts.hits).toBe(before + 1)
    expect([...tokens.ids]).toEqual(await realTokenizer('qwen3').oracle(longer))
    const fresh = new Tokens({ ids: tokens.ids, source: 'tokenizer', exactness: 'proven' })
    const shared = tokens.blockHashes(scheme, hasher)
    expect([...shared.sequenceColumn()]).toEqual([...fresh.blockHashes(scheme, hasher).sequenceColumn()])
    expect(tokens.blockHashes(scheme, hasher)).toBe(shared)
  })
})

it.each(['then some ', '好世界👍 é '])(
  'encodes millions of "%s" in a thread, with the ids that they have',
  async (words) => {
    const text = words.repeat(Math.ceil((2 << 20) / words.length) + 3)
    const tokens = await service.tokenizeRequest('qwen', 'completions', { prompt: text }, { deadlineMs: 30_000 })
    const wanted = realTokenizer('qwen3').newEncoder().encode(text)
    expect(tokens).toBeInstanceOf(Tokens)
    expect(Buffer.from((tokens as Tokens).ids.buffer).equals(Buffer.from(wanted.buffer))).toBe(true)
  },
)

it.each(['qwen', 'tiny'])('%s: words without a single mark between them are remembered, too', async (model) => {
  const words = Array.from(
    { length: 20_000 },
    (_, index) => ['then', 'some', 'more', 'people'][(index * 7919) % 4],
  ).join(' ')
  await complete(model, `${words} end`)
  const before = service.counts.models[model]!.texts.hits
  const longer = `${words} and on`
  const tokens = await complete(model, longer)
  expect(service.counts.models[model]!.texts.hits).toBe(before + 1)
  if (model === 'qwen') expect([...tokens.ids]).toEqual(await realTokenizer('qwen3').oracle(longer))
})

describe('bombs end, and the loop goes on meanwhile', () => {
  const random = randomFrom(1)
  const randomBytes = Buffer.from(Uint8Array.from({ length: 1_000_000 }, () => random(256)))
  const bombs = [
    { says: 'a megabyte of one letter', text: 'a'.repeat(1_000_000) },
    { says: 'a megabyte of spaces', text: ' '.repeat(1_000_000) },
    { says: 'a megabyte of one punctuation mark', text: '!'.repeat(1_000_000) },
    { says: 'a megabyte of random bytes', text: randomBytes.toString('latin1') },
    { says: 'forty kilobytes without a cut point', text: 'ab'.repeat(20_000) },
    { says: 'a megabyte of decomposed marks', text: 'e\u0301'.repeat(500_000) },
  ]
  it.each(bombs.map((bomb, index) => ({ ...bomb, model: index % 2 ? 'tiny' : 'qwen' })))(
    '$model: $says',
    async ({ model, text }) => {
      const result = await service.tokenizeRequest(model, 'completions', { prompt: text }, { deadlineMs: 10_000 })
      expect(result instanceof Tokens ? result.ids.length : result.loadOnly).toBeTruthy()
    },
  )

  it('does not hold the loop while a thread works', async () => {
    const delay = monitorEventLoopDelay({ resolution: 1 })
    await complete('tiny', 'warm up')
    delay.enable()
    await complete('tiny', `${'xy'.repeat(400_000)}z`)
    delay.disable()
    expect(delay.max / 1e6).toBeLessThan(250) // the bench has the real bound; this one only has to see a text encoded on the loop
  })

  it('ends a thread at its deadline and goes on with another', async () => {
    const prompt = 'q'.repeat(3_000_000)
    const late = await service.tokenizeRequest('tiny', 'completions', { prompt }, { deadlineMs: 1 })
    expect(late).toMatchObject({ loadOnly: 'deadline', error: { code: 'WR_TOKENS_DEADLINE' } })
    expect((await complete('tiny', 'q'.repeat(60_000))).ids.length).toBeGreaterThan(0)
  })

  it('refuses a text that is too long', async () => {
    const result = await service.tokenizeRequest('tiny', 'completions', { prompt: 'x'.repeat((4 << 20) + 1) })
    expect(result).toMatchObject({ loadOnly: 'too-long', error: { code: 'WR_TOKENS_TEXT_TOO_LONG' } })
  })

  it('refuses more than may wait', async () => {
    const prompts = Array.from({ length: 12 }, (_, index) => `${index}${'w'.repeat(60_000)}`)
    const results = await Promise.all(
      prompts.map((prompt) => service.tokenizeRequest('tiny', 'completions', { prompt })),
    )
    expect(results.filter((it) => !(it instanceof Tokens)).map((it) => (it as LoadOnly).loadOnly)).toContain('busy')
  })

  it('rejects when its request is aborted', async () => {
    const stop = new AbortController()
    const running = service.tokenizeRequest(
      'tiny',
      'completions',
      { prompt: 'v'.repeat(3_000_000) },
      { signal: stop.signal },
    )
    stop.abort(new Error('the client left'))
    await expect(running).rejects.toThrow('the client left')
  })
})

describe('template input that is meant to hurt', () => {
  const nested = (depth: number): Body => JSON.parse(`${'{"a":'.repeat(depth)}1${'}'.repeat(depth)}`) as Body
  const chat = (extra: Body): Body => ({ messages: [{ role: 'user', content: 'x' }], ...extra })
  const tools = (parameters: Body): Body => chat({ tools: [{ type: 'function', function: { name: 'f', parameters } }] })
  const wide = Object.fromEntries(
    Array.from({ length: 40_000 }, (_, index) => [`property_${index}`, { type: 'string' }]),
  )

  it('is refused when nested too deeply', async () => {
    const body = tools(nested(3000))
    const raw = new TextEncoder().encode(JSON.stringify(body))
    // By the template, or by a thread that reads it again where the loop had no time for it.
    const refusal = expect.stringMatching(/^(template-failed|too-long)$/) as string
    expect(await service.tokenizeRequest('qwen', 'chat', body)).toMatchObject({ loadOnly: refusal })
    expect(await service.tokenizeRequest('qwen', 'chat', body, { raw })).toHaveProperty('loadOnly')
  })

  it('is late, and not refused by the template, where rendering it takes longer than it may', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'warmroute-endless-'))
    cpSync(tinyllamaFolder, folder, { recursive: true })
    const endless = '{% for i in range(90000) %}{% for j in range(90000) %}{% set x = i %}{% endfor %}{% endfor %}'
    writeFileSync(join(folder, 'chat_template.jinja'), `{% if messages[0].content == 'x' %}${endless}{% endif %}`)
    await service.setModel('endless', { path: folder })
    const late = await service.tokenizeRequest('endless', 'chat', chat({}), { deadlineMs: 20 })
    expect(late).toMatchObject({ loadOnly: 'deadline', error: { code: 'WR_TOKENS_DEADLINE' } })
    service.removeModel('endless')
    rmSync(folder, { recursive: true })
  })

  it('is rendered in a thread when its tools are huge', async () => {
    const body = tools(wide)
    const raw = new TextEncoder().encode(JSON.stringify(body))
    const tokens = await service.tokenizeRequest('qwen', 'chat', body, { raw })
    expect(tokens).toBeInstanceOf(Tokens)
    expect((tokens as Tokens).ids.length).toBeGreaterThan(100_000)
  })

  it('is rendered in a thread when its messages are very many, with the same tokens', async () => {
    const messages = Array.from({ length: 3000 }, (_, index) => ({
      role: index % 2 ? 'assistant' : 'user',
      content: `message ${index}`,
    }))
    const tokens = await service.tokenizeRequest('qwen', 'chat', { messages })
    expect(tokens).toBeInstanceOf(Tokens)
    const text = messages.map(({ role, content }) => `<|im_start|>${role}\n${content}<|im_end|>\n`).join('')
    // The last message is an assistant's, which the template gives an empty thought.
    const last = '<|im_start|>assistant\nmessage 2999'
    const wanted = `${text.replace(last, '<|im_start|>assistant\n<think>\n\n</think>\n\nmessage 2999')}<|im_start|>assistant\n`
    expect([...(tokens as Tokens).ids]).toEqual(await realTokenizer('qwen3').oracle(wanted))
  })
})

// Issue 7: a program hands a parsed body over, of any size and without its bytes.
describe('a parsed body that is too much for one turn', () => {
  const messages = Array.from({ length: 4000 }, (_, index) => ({
    role: index % 2 ? 'assistant' : 'user',
    content: `\ud83d message ${index} 👍 ${'x'.repeat(120)}`,
  }))
  const blocks = messages.map(({ content }) => ({ type: 'text', text: content }))
  it.each([
    { route: 'chat', body: { messages } },
    { route: 'responses', body: { input: messages } },
    { route: 'messages', body: { max_tokens: 1, messages: [{ role: 'user', content: blocks }] } },
    { route: 'completions', body: { prompt: blocks.map(({ text }) => text) } },
    { route: 'completions', body: { prompt: Array.from({ length: 150_000 }, (_, index) => index) } },
  ] as const)('has the tokens that its bytes have: $route', async ({ route, body }) => {
    const raw = new TextEncoder().encode(JSON.stringify(body))
    const wanted = (await service.tokenizeRequest('qwen', route, undefined, { ...patient, raw })) as Tokens
    const before = service.counts.models['qwen']!.prefixes
    for (const options of [patient, { ...patient, raw }]) {
      const tokens = (await service.tokenizeRequest('qwen', route, body as unknown as Body, options)) as Tokens
      expect(Buffer.from(tokens.ids.buffer).equals(Buffer.from(wanted.ids.buffer))).toBe(true)
      expect(tokens).toMatchObject({ promptCount: wanted.promptCount, totalCount: wanted.totalCount })
    }
    expect(service.counts.models['qwen']!.prefixes).toEqual(before) // nothing was rendered here
  })

  it('is refused where a thread would refuse its bytes', async () => {
    const content = Array.from({ length: 20 }, () => ({ type: 'text', text: 'x'.repeat(1 << 20) }))
    const body = { messages: [{ role: 'user', content }] }
    expect(await service.tokenizeRequest('qwen', 'chat', body)).toMatchObject({ loadOnly: 'too-long' })
  })

  it('is refused where it never ends', async () => {
    const ring: Record<string, never> = {}
    Object.assign(ring, { messages: [{ role: 'user', content: 'x' }], ring })
    expect(await service.tokenizeRequest('qwen', 'chat', ring)).toMatchObject({ loadOnly: 'too-long' })
  })
})

it('replaces a model while it is used', async () => {
  await service.setModel('changing', { path: tinyllamaFolder })
  const first = (await complete('changing', 'Hello world')).ids
  const text = prose(60_000, 9)
  const running = complete('changing', text)
  await service.setModel('changing', { path: tokenizerFolder('gpt2') })
  expect((await running).ids).toEqual((await complete('tiny', text)).ids)
  expect([...(await complete('changing', text)).ids]).toEqual(await realTokenizer('gpt2').oracle(text))
  expect([...(await complete('changing', 'Hello world')).ids]).not.toEqual([...first])
  service.removeModel('changing')
  expect(service.status('changing').source).toBe('none')
})

// Threads keep what they made of a model's files, and know them by a key.
it('takes other files in the same folder for what they are, also in a thread that knew the ones before', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'warmroute-replaced-'))
  const one = new TokenService({ threads: 1 })
  const prompt = `${prose(60_000, 21)} ing`
  const raw = new TextEncoder().encode(JSON.stringify({ messages: [{ role: 'user', content: 'hello ing' }] }))
  const [plain] = realTokenizer('gpt2').file.added_tokens!
  const versions = [
    { tokenizer: realTokenizer('gpt2'), template: '{{ messages[0].content }}' },
    {
      tokenizer: changedTokenizer('gpt2', 'with a word of its own', {
        added_tokens: [plain!, { ...plain!, id: 278, content: 'ing' }],
      }),
      template: '{{ messages[0].content }}{{ messages[0].content }}',
    },
  ]
  for (const [index, { tokenizer, template }] of versions.entries()) {
    writeFileSync(join(folder, 'tokenizer.json'), JSON.stringify(tokenizer.file))
    writeFileSync(join(folder, 'chat_template.jinja'), template)
    await one.setModel('replaced', { path: folder })
    const texts = (await one.tokenizeRequest('replaced', 'completions', { prompt }, patient)) as Tokens
    expect(texts.ids).toEqual(tokenizer.newEncoder().encode(prompt))
    expect(one.counts.models['replaced']!.inThreads).toBe(1)
    const chats = (await one.tokenizeRequest('replaced', 'chat', undefined, { ...patient, raw })) as Tokens
    expect(chats.ids).toEqual(tokenizer.newEncoder().encode('hello ing'.repeat(index + 1)))
  }
  await one.close()
  rmSync(folder, { recursive: true, force: true })
}, 60_000)

it('says which sources did not serve, and why', async () => {
  const status = await service.setModel('missing', { path: '/nowhere' })
  expect(status).toMatchObject({ source: 'none' })
  expect(status.tried[0]).toContain('no tokenizer.json')
})
