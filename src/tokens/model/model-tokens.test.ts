// Goal: no order of growing, editing, cutting and mixing conversations makes a cached answer differ from an uncached one.
// Method: the same texts go through a model with tiny caches, on the loop and through threads, and through an encoder that forgets.
import fc from 'fast-check'
import { afterAll, describe, expect, it } from 'vitest'
import { prose, tokenizerFolder } from '../../../bench/tokens/texts.js'
import { createBlockHasher, createHashScheme } from '../../core/hashing/index.js'
import { ChatTemplates, renderChat } from '../chat/chat-template.js'
import { Encoder } from '../encode/encoder.js'
import { TokenPool } from '../pool/pool.js'
import { tinyllamaFolder } from '../real-tokenizers.case.js'
import { Tokens } from '../tokens.js'
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
