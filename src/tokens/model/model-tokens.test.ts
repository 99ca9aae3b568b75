// Goal: no order of growing, editing, cutting and mixing conversations makes a cached answer differ from an uncached one.
// Method: the same texts go through a model with tiny caches, on the loop and through threads, and through an encoder that forgets.
import fc from 'fast-check'
import { afterAll, describe, expect, it } from 'vitest'
import { prose, tokenizerFolder } from '../../../bench/tokens/texts.js'
import { createBlockHasher, createHashScheme } from '../../core/hashing/index.js'
import { ChatTemplates, renderChat } from '../chat/chat-template.js'
import type { Body } from '../chat/request.js'
import { Encoder } from '../encode/encoder.js'
import { TokenPool } from '../pool/pool.js'
import { tinyllamaFolder } from '../real-tokenizers.case.js'
import { Tokens } from '../tokens.js'
import { turnsDuring } from '../turns.case.js'
import type { EncoderPlan } from '../vocabulary/plan.js'
import { viewVocabulary } from '../vocabulary/vocabulary.js'
import type { Step } from './edits.case.js'
import { apply, firstChats, words } from './edits.case.js'
import { loadModel, readShared } from './loaded-model.js'
import { ModelTokens } from './model-tokens.js'

const pool = new TokenPool({ threads: 1 })
afterAll(() => pool.close())
const scheme = createHashScheme({ blockSize: 4 })
const hasher = createBlockHasher()

const anyChat = fc.nat({ max: 2 })
const anyWord = fc.constantFrom(...words)
const anyStep: fc.Arbitrary<Step> = fc.oneof(
  {
    weight: 5,
    arbitrary: fc.record({
      kind: fc.constant('append' as const),
      chat: anyChat,
      words: fc.array(anyWord, { maxLength: 12 }),
    }),
  },
  {
    weight: 2,
    arbitrary: fc.record({ kind: fc.constant('edit' as const), chat: anyChat, at: fc.nat({ max: 5 }), word: anyWord }),
  },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant('cut' as const), chat: anyChat, at: fc.nat({ max: 5 }) }) },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant('copy' as const), chat: anyChat, from: anyChat }) },
)

const models = [
  { name: 'Qwen3', loaded: loadModel(tokenizerFolder('qwen3'), 'p1') },
  { name: 'TinyLlama, marked once', loaded: loadModel(tinyllamaFolder, 'p2') },
  { name: 'TinyLlama, marked at sections', loaded: loadModel(tinyllamaFolder, 'p3', { llamaPrefix: 'file' }) },
]

describe.each(models)('$name', ({ loaded }) => {
  const plan = JSON.parse(readShared(loaded.plan)) as EncoderPlan
  const forgetful = new Encoder(plan, viewVocabulary(loaded.vocabulary!))
  const uncached = (text: string, addSpecialTokens: boolean): Uint32Array => {
    forgetful.clearCaches()
    return forgetful.encode(text, addSpecialTokens)
  }

  it.each([
    { says: 'on the loop, in caches that evict', options: { cacheBytes: 24_000 }, runs: 80 },
    { says: 'on the loop, in caches that hold all', options: {}, runs: 80 },
    { says: 'through threads', options: { loopBytesMax: 300 }, runs: 15 },
  ])('cached equals uncached: $says', async ({ options, runs }) => {
    await fc.assert(
      fc.asyncProperty(fc.array(anyStep, { maxLength: 14 }), fc.boolean(), async (steps, addSpecialTokens) => {
        const model = new ModelTokens(loaded, pool, options)
        const chats = firstChats()
        for (const step of steps) {
          apply(chats, step)
          const prompt = chats[step.chat]!.join('')
          const tokens = await model.tokenize('completions', { prompt, add_special_tokens: addSpecialTokens })
          const wanted = uncached(prompt, addSpecialTokens)
          expect({ prompt, ids: [...tokens.ids] }).toEqual({ prompt, ids: [...wanted] })
          const fresh = new Tokens({ ids: wanted, source: 'tokenizer', exactness: 'proven' })
          const hashes = fresh.blockHashes(scheme, hasher).sequenceColumn()
          expect([...tokens.blockHashes(scheme, hasher).sequenceColumn()]).toEqual([...hashes])
          if ('cacheBytes' in options) expect(model.counts.cacheBytes).toBeLessThanOrEqual(options.cacheBytes)
        }
      }),
      { numRuns: runs },
    )
  })
})

describe.each(models.slice(0, 2))('chats of $name', ({ loaded }) => {
  const plan = JSON.parse(readShared(loaded.plan)) as EncoderPlan
  const forgetful = new Encoder(plan, viewVocabulary(loaded.vocabulary!))
  const chosen = new ChatTemplates(loaded.templates, loaded.specials).choose(false)!
  const roomy = {
    limits: { stepsMax: Infinity, outputMax: 1 << 22, deadlineMs: 9999 },
    now: () => 0,
    date: () => new Date(0),
  }

  it.each([
    { says: 'in caches that evict', options: { cacheBytes: 60_000 }, runs: 30 },
    { says: 'in caches that hold all', options: {}, runs: 30 },
    { says: 'through threads', options: { loopBytesMax: 300 }, runs: 5 },
  ])('continued equals rendered and encoded from nothing: $says', async ({ options, runs }) => {
    await fc.assert(
      fc.asyncProperty(fc.array(anyStep, { minLength: 3, maxLength: 12 }), async (steps) => {
        const model = new ModelTokens(loaded, pool, options)
        const start = Array.from({ length: 9 }, (_, index) => prose(60, index))
        const chats = [[...start], [...start], start.slice(0, 5)]
        for (const step of steps) {
          apply(chats, step)
          const messages = chats[step.chat]!.map((content, index) => ({
            role: index % 2 ? 'assistant' : 'user',
            content,
          }))
          if (messages.length === 0) continue // the template refuses it
          const tokens = await model.tokenize('chat', { messages })
          const shaped = {
            messages,
            tools: null,
            documents: null,
            addGenerationPrompt: true,
            continueFinalMessage: false,
            kwargs: {},
          }
          forgetful.clearCaches()
          const ids = forgetful.encode(renderChat(chosen, shaped, roomy))
          expect([...tokens.ids]).toEqual([...ids])
          const fresh = new Tokens({ ids, source: 'tokenizer', exactness: 'proven' })
          const hashes = fresh.blockHashes(scheme, hasher).sequenceColumn()
          expect([...tokens.blockHashes(scheme, hasher).sequenceColumn()]).toEqual([...hashes])
          expect(model.counts.prefixes!.refuted).toBe(0)
          if ('cacheBytes' in options) expect(model.counts.cacheBytes).toBeLessThanOrEqual(options.cacheBytes)
        }
      }),
      { numRuns: runs },
    )
  })
})

it('does not cut between a word mark and the first character of a text', async () => {
  const model = new ModelTokens(models[2]!.loaded, pool)
  const start = `\u200d${`\n${' '.repeat(60)}`.repeat(2)} the`
  const first = await model.encode(start, false)
  const second = await model.encode(`${start} the`, false)
  expect(second.slice(0, 5)).toEqual(first.slice(0, 5))
})

// Goal: nothing that two threads and the loop do for one model at the same time shows in an answer.
// Method: many texts at once, of which some are encoded here and some there; models with caches that evict, and one that is shared.
it('cached equals uncached when the loop and two threads work on the same conversations at once', async () => {
  const both = new TokenPool({ threads: 2, queueMax: 1000 })
  try {
    for (const { loaded } of models.slice(0, 2)) {
      const forgetful = new Encoder(
        JSON.parse(readShared(loaded.plan)) as EncoderPlan,
        viewVocabulary(loaded.vocabulary!),
      )
      await fc.assert(
        fc.asyncProperty(
          fc.array(fc.array(anyStep, { minLength: 2, maxLength: 6 }), { minLength: 4, maxLength: 10 }),
          fc.constantFrom(24_000, 60_000, 8 << 20),
          async (clients, cacheBytes) => {
            const model = new ModelTokens(loaded, both, { cacheBytes, loopBytesMax: 500 })
            const run = async (steps: readonly Step[]): Promise<void> => {
              const chats = firstChats()
              for (const step of steps) {
                apply(chats, step)
                const prompt = chats[step.chat]!.join('')
                const tokens = await model.tokenize('completions', { prompt })
                forgetful.clearCaches()
                const ids = forgetful.encode(prompt, true)
                expect({ prompt, ids: [...tokens.ids] }).toEqual({ prompt, ids: [...ids] })
                const fresh = new Tokens({ ids, source: 'tokenizer', exactness: 'proven' })
                const hashes = fresh.blockHashes(scheme, hasher).sequenceColumn()
                expect([...tokens.blockHashes(scheme, hasher).sequenceColumn()]).toEqual([...hashes])
              }
            }
            await Promise.all(clients.map(run))
            expect(model.counts.cacheBytes).toBeLessThanOrEqual(cacheBytes)
          },
        ),
        { numRuns: 12 },
      )
    }
  } finally {
    await both.close()
  }
}, 60_000)

describe('a body that is only there as bytes', () => {
  const model = new ModelTokens(models[0]!.loaded, pool)
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
    ['ids', 'completions', { prompt: [1, 2, 3] }],
    ['several lists of ids', 'completions', { prompt: [[5, 6, 7], [8]], truncate_prompt_tokens: 2 }],
    ['ids of a chat', 'chat', { messages: [], nvext: { token_data: [9, 8, 7] } }],
  ])('has the tokens of the same body: %s', async (_says, route, body) => {
    const raw = new TextEncoder().encode(JSON.stringify(body))
    const [there, here] = [await model.tokenize(route, undefined, { raw }), await model.tokenize(route, body, { raw })]
    const { source, exactness, promptCount, totalCount } = here
    expect(there).toMatchObject({ source, exactness, promptCount, totalCount })
    expect([...there.ids]).toEqual([...here.ids])
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

it('lets others have their turn of the loop while it encodes a batch, and ends at its deadline', async () => {
  const model = new ModelTokens(models[0]!.loaded, pool)
  const prompt = Array.from({ length: 20_000 }, (_, index) => `${index} bottles`)
  const tokenize = () => model.tokenize('completions', { prompt }, { deadlineMs: 60_000 })
  const { result: tokens, turns } = await turnsDuring(tokenize)
  expect(tokens).toMatchObject({ promptCount: 20_000 })
  expect(turns).toBeGreaterThan(120) // about 130 texts in each
  const hurried = model.tokenize('completions', { prompt }, { deadlineMs: 0 })
  await expect(hurried).rejects.toMatchObject({ code: 'WR_TOKENS_DEADLINE' })
  const stop = AbortSignal.abort(new Error('the client left'))
  await expect(model.tokenize('completions', { prompt }, { signal: stop })).rejects.toThrow('the client left')
})

it('stays within 32 MB under very many distinct texts, and reports what it forgot', async () => {
  const model = new ModelTokens(models[0]!.loaded, pool, { cacheBytes: 32 << 20 })
  const start = prose(3000, 1)
  for (let index = 0; index < 20_000; index++) {
    await model.encode(`${index} ${start.slice(index % 1000, 1000 + (index % 2000))} ${index * 7919}`, false)
    if (index % 1000 === 0) expect(model.counts.cacheBytes).toBeLessThanOrEqual(32 << 20)
  }
  expect(model.counts.cacheBytes).toBeLessThanOrEqual(32 << 20)
  expect(model.counts.texts.evictions).toBeGreaterThan(0)
})
