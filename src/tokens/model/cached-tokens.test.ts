// Goal: no order of growing, editing, cutting and mixing conversations makes a cached answer differ from an uncached one.
// Method: the same texts go through a model with tiny caches, on the loop and through threads, and through an encoder that forgets.
// What a property is about must have happened in it: texts were continued, entries evicted, threads asked.
import fc from 'fast-check'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { prose } from '../../../bench/tokens/texts.js'
import { createBlockHasher, createHashScheme } from '../../core/hashing/index.js'
import { ChatTemplates, renderChat } from '../chat/chat-template.js'
import { mixtures } from '../corpora.case.js'
import { CountedPool } from '../pool/counted-pool.case.js'
import { Tokens } from '../tokens.js'
import type { Step } from './edits.case.js'
import { apply, chatCount, firstChats, words } from './edits.case.js'
import { everyModel } from './loaded-models.case.js'
import type { ModelCounts } from './model-tokens.js'
import { ModelTokens } from './model-tokens.js'

const pool = new CountedPool({ threads: 2, queueMax: 1000 })
beforeAll(async () => {
  const model = new ModelTokens(models[0]!.loaded, pool, { loopBytesMax: 0 })
  const encode = (seed: number): Promise<unknown> => model.encode(prose(20_000, seed), false, { deadlineMs: 60_000 })
  // One thread is there long before the other.
  for (let seed = 0; pool.encodedBy.size < 2; seed += 4) await Promise.all([1, 2, 3, 4].map((it) => encode(seed + it)))
}, 60_000)
afterAll(() => pool.close())
const scheme = createHashScheme({ blockSize: 4 })
const hasher = createBlockHasher()

const anyChat = fc.nat({ max: chatCount - 1 })
const anyWord = fc.constantFrom(...words)
const anyStep: fc.Arbitrary<Step> = fc.oneof(
  {
    weight: 5,
    arbitrary: fc.record({
      kind: fc.constant('append' as const),
      chat: anyChat,
      words: fc.array(anyWord, { maxLength: 12, size: 'max' }),
    }),
  },
  {
    weight: 2,
    arbitrary: fc.record({ kind: fc.constant('edit' as const), chat: anyChat, at: fc.nat({ max: 5 }), word: anyWord }),
  },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant('cut' as const), chat: anyChat, at: fc.nat({ max: 5 }) }) },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant('copy' as const), chat: anyChat, from: anyChat }) },
)
/** At full length: left to itself fast-check makes lists so short that nothing is ever evicted. */
const anySteps = (maxLength: number): fc.Arbitrary<Step[]> =>
  fc.array(anyStep, { minLength: maxLength / 2, maxLength, size: 'max' })
const models = everyModel('cached')

function expectSame(tokens: Tokens, ids: Uint32Array, prompt: string): void {
  expect({ prompt, ids: [...tokens.ids] }).toEqual({ prompt, ids: [...ids] })
  const fresh = new Tokens({ ids, source: 'tokenizer', exactness: 'proven' })
  const hashes = fresh.blockHashes(scheme, hasher).sequenceColumn()
  expect([...tokens.blockHashes(scheme, hasher).sequenceColumn()]).toEqual([...hashes])
}

/** What happened in all runs of a property. */
class Happened {
  continued = 0
  onLoop = 0
  inThreads = 0
  segments = 0
  textsForgotten = 0
  piecesForgotten = 0
  segmentsForgotten = 0
  rendered = 0
  renderingsForgotten = 0

  add({ texts, prefixes, encoder, onLoop, inThreads }: ModelCounts): void {
    this.continued += texts.hits
    this.onLoop += onLoop
    this.inThreads += inThreads
    this.segments += encoder!.segments.hits
    this.textsForgotten += texts.evictions
    this.piecesForgotten += encoder!.pieces.evictions
    this.rendered += prefixes!.hits
    this.renderingsForgotten += prefixes!.evictions
    this.segmentsForgotten += encoder!.segments.evictions
  }
}

const some = expect.toSatisfy((count: number) => count > 0) as number

/**
 * Half of the runs have a seed of their own, and what happened in them is the same each time: it is judged. The others are new each time;
 * whether anything was evicted in them is left to chance.
 */
async function holds<T>(
  property: fc.IAsyncProperty<T>,
  numRuns: number,
  happened: Happened,
  wanted: Partial<Happened>,
): Promise<void> {
  await fc.assert(property, { numRuns: Math.ceil(numRuns / 2), seed: 1 })
  expect(happened).toMatchObject(wanted)
  await fc.assert(property, { numRuns: Math.floor(numRuns / 2) })
}

/** How busy the machine is does not decide what is encoded where. */
const unhurried = { loopMsMax: Infinity }

describe.each(models)('$name', ({ loaded, uncached }) => {
  it.each([
    {
      says: 'on the loop, in caches that evict',
      options: { cacheBytes: 24_000 },
      runs: 80,
      wanted: { continued: some, textsForgotten: some, piecesForgotten: some, inThreads: 0 },
    },
    {
      says: 'on the loop, in caches that hold all',
      options: {},
      runs: 80,
      wanted: { continued: some, segments: some, textsForgotten: 0, piecesForgotten: 0, segmentsForgotten: 0 },
    },
    {
      says: 'through threads',
      options: { loopBytesMax: 300 },
      runs: 15,
      wanted: { continued: some, onLoop: some, inThreads: some },
    },
    {
      says: 'in steps, mostly on the loop',
      options: { turnUnitsMax: 150 },
      runs: 30,
      wanted: { continued: some, onLoop: some },
    },
    {
      says: 'in steps, through threads',
      options: { turnUnitsMax: 150, loopBytesMax: 300 },
      runs: 15,
      wanted: { continued: some, onLoop: some, inThreads: some },
    },
  ])('cached equals uncached: $says', async ({ options, runs, wanted }) => {
    const happened = new Happened()
    await holds(
      fc.asyncProperty(anySteps(24), fc.boolean(), async (steps, addSpecialTokens) => {
        const model = new ModelTokens(loaded, pool, { ...unhurried, ...options })
        const chats = firstChats()
        for (const step of steps) {
          apply(chats, step)
          const prompt = chats[step.chat]!.join('')
          const tokens = await model.tokenize('completions', { prompt, add_special_tokens: addSpecialTokens })
          expectSame(tokens, uncached(prompt, addSpecialTokens), prompt)
          if ('cacheBytes' in options) expect(model.counts.cacheBytes).toBeLessThanOrEqual(options.cacheBytes)
        }
        happened.add(model.counts)
      }),
      runs,
      happened,
      wanted,
    )
  })

  it('cached equals uncached: beginnings of one text, split at any unit, in any order', async () => {
    const happened = new Happened()
    await holds(
      fc.asyncProperty(
        fc.nat(),
        fc.array(fc.nat({ max: 1000 }), { minLength: 2, maxLength: 12, size: 'max' }),
        fc.constantFrom(24_000, 8 << 20),
        async (seed, splits, cacheBytes) => {
          const text = prose(150, seed) + mixtures(1, seed, 900)[0]!
          const model = new ModelTokens(loaded, pool, { cacheBytes })
          for (const split of splits) {
            const prompt = text.slice(0, Math.round((split / 1000) * text.length)) // also between the halves of a character
            expectSame(await model.tokenize('completions', { prompt }), uncached(prompt, true), prompt)
          }
          happened.add(model.counts)
        },
      ),
      25,
      happened,
      { continued: some },
    )
  })
})

const roomy = {
  limits: { stepsMax: Infinity, outputMax: 1 << 22, deadlineMs: 9999 },
  now: () => 0,
  date: () => new Date(0),
}
const withTemplates = models.filter(({ loaded }) => loaded.templates.length > 0)

it('most have chat templates', () =>
  expect(withTemplates.map(({ name }) => name)).toEqual(
    models.map(({ name }) => name).filter((name) => !name.startsWith('GPT-2')),
  ))

describe.each(withTemplates)('chats of $name', ({ loaded, uncached }) => {
  const chosen = new ChatTemplates(loaded.templates, loaded.specials).choose(false)!

  it.each([
    {
      says: 'in caches that evict',
      options: { cacheBytes: 32_000 },
      runs: 25,
      wanted: { textsForgotten: some },
    },
    {
      says: 'in caches that evict renderings',
      options: { cacheBytes: 240_000 },
      runs: 25,
      wanted: { rendered: some, renderingsForgotten: some },
    },
    {
      says: 'in caches that hold all',
      options: {},
      runs: 25,
      wanted: { rendered: some, textsForgotten: 0, renderingsForgotten: 0 },
    },
    {
      says: 'through threads',
      options: { loopBytesMax: 300 },
      runs: 5,
      wanted: { rendered: some, inThreads: some },
    },
    {
      says: 'in steps',
      options: { turnUnitsMax: 1000, cacheBytes: 240_000 },
      runs: 20,
      wanted: { rendered: some, renderingsForgotten: some, onLoop: some },
    },
  ])('continued equals rendered and encoded from nothing: $says', async ({ options, runs, wanted }) => {
    const happened = new Happened()
    await holds(
      fc.asyncProperty(anySteps(20), async (steps) => {
        const model = new ModelTokens(loaded, pool, { ...unhurried, ...options })
        const begin = (seed: number): string[] => Array.from({ length: 9 }, (_, index) => prose(60, seed + index))
        const chats = [begin(0), begin(0), begin(0).slice(0, 5), begin(10), begin(20), begin(30)]
        for (const step of steps) {
          apply(chats, step)
          const messages = chats[step.chat]!.map((content, index) => ({
            role: index % 2 ? 'assistant' : 'user',
            content,
          }))
          if (messages.length === 0) continue // the template refuses it
          const shaped = {
            messages,
            tools: null,
            documents: null,
            addGenerationPrompt: true,
            continueFinalMessage: false,
            kwargs: {},
          }
          const text = renderChat(chosen, shaped, roomy)
          expectSame(await model.tokenize('chat', { messages }), uncached(text, false), text)
          expect(model.counts.prefixes!.refuted).toBe(0)
          if ('cacheBytes' in options) expect(model.counts.cacheBytes).toBeLessThanOrEqual(options.cacheBytes)
        }
        happened.add(model.counts)
      }),
      runs,
      happened,
      { continued: some, ...wanted },
    )
  })
})

// Goal: nothing that two threads and the loop do for one model at the same time shows in an answer.
// Method: many texts at once, of which some are encoded here and some there; models with caches that evict, and one that is shared.
it.each(models)(
  'cached equals uncached when the loop and two threads work on the same conversations at once: $name',
  async ({ loaded, uncached }) => {
    const happened = new Happened()
    pool.encodedBy.clear()
    const property = fc.asyncProperty(
      fc.array(anySteps(10), { minLength: 6, maxLength: 10, size: 'max' }),
      fc.constantFrom(24_000, 60_000, 8 << 20),
      fc.constantFrom(undefined, { turnUnitsMax: 150 }),
      async (clients, cacheBytes, steps) => {
        const model = new ModelTokens(loaded, pool, { cacheBytes, loopBytesMax: 500, ...steps })
        const converse = async (steps: readonly Step[]): Promise<void> => {
          const chats = firstChats()
          for (const step of steps) {
            apply(chats, step)
            const prompt = chats[step.chat]!.join('')
            expectSame(await model.tokenize('completions', { prompt }), uncached(prompt, true), prompt)
          }
        }
        await Promise.all(clients.map(converse))
        expect(model.counts.cacheBytes).toBeLessThanOrEqual(cacheBytes)
        happened.add(model.counts)
      },
    )
    const wanted = { continued: some, onLoop: some, inThreads: some, textsForgotten: some }
    await holds(property, 10, happened, wanted)
    // Which thread takes a text is not ours to say: some more, until both did.
    while (pool.encodedBy.size < 2) await fc.assert(property, { numRuns: 1 })
  },
  60_000,
)
