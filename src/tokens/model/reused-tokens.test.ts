// Where a model may not take over what it remembers, or may not encode a text where it is: one case for each of its guards, with a text that
// needs it. What a model says that remembers nothing is the truth here; that this is the engine's is in encoder.test.ts.
import { cpSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { prose, tokenizerFolder } from '../../../bench/tokens/texts.js'
import { createBlockHasher, createHashScheme } from '../../core/hashing/index.js'
import type { Body, Route } from '../chat/request.js'
import { TokenPool } from '../pool/pool.js'
import { realTokenizer, tinyllamaFolder } from '../real-tokenizers.case.js'
import { parseTemplate } from '../template/parse.js'
import type { LoadedModel } from './loaded-model.js'
import { loadModel } from './loaded-model.js'
import { turnsDuring } from '../turns.case.js'
import { ModelTokens } from './model-tokens.js'

const pool = new TokenPool({ threads: 1 })
const folder = mkdtempSync(join(tmpdir(), 'warmroute-library-'))
afterAll(async () => {
  rmSync(folder, { recursive: true, force: true })
  await pool.close()
})
beforeAll(async () => {
  await new ModelTokens(qwen, pool, { loopBytesMax: 0 }).encode('the thread is there', false, { deadlineMs: 60_000 })
}, 60_000)
const qwen = loadModel(tokenizerFolder('qwen3'), 'reused qwen3')
const tiny = loadModel(tinyllamaFolder, 'reused tiny')
const scheme = createHashScheme({ blockSize: 4 })
const hasher = createBlockHasher()

const spoken = (contents: readonly string[]): Body => ({
  messages: contents.map((content, index) => ({ role: index % 2 ? 'assistant' : 'user', content })),
})
const nine = Array.from({ length: 9 }, (_, index) => prose(60, index))

/** Each body in turn has the ids and hashes that it has from nothing. Answers how many texts and renderings were continued. */
async function expectAsFromNothing(
  loaded: LoadedModel,
  route: Route,
  bodies: readonly Body[],
): Promise<{ readonly texts: number; readonly renderings: number }> {
  const model = new ModelTokens(loaded, pool, { loopMsMax: Infinity })
  for (const body of bodies) {
    const tokens = await model.tokenize(route, body)
    const fresh = await new ModelTokens(loaded, pool).tokenize(route, body)
    const hashes = tokens.blockHashes(scheme, hasher).sequenceColumn()
    const wanted = fresh.blockHashes(scheme, hasher).sequenceColumn()
    expect({ body, ids: [...tokens.ids], hashes: [...hashes] }).toEqual({
      body,
      ids: [...fresh.ids],
      hashes: [...wanted],
    })
  }
  return { texts: model.counts.texts.hits, renderings: model.counts.prefixes!.hits }
}

describe('of a prompt that is cut, the hashes are not those of what it was cut from', () => {
  it.each(['left', 'right'])('a text, from its %s', async (truncation_side) => {
    const [prompt, longer] = [prose(900, 1), prose(900, 1) + prose(600, 2)]
    const cut = { truncate_prompt_tokens: 100, truncation_side }
    const bodies = [{ prompt }, { prompt: longer, ...cut }, { prompt: longer }]
    expect((await expectAsFromNothing(qwen, 'completions', bodies)).texts).toBe(2)
  })

  it.each(['left', 'right'])('a chat, from its %s', async (truncation_side) => {
    const cut = { truncate_prompt_tokens: 100, truncation_side }
    const longer = spoken([...nine, prose(300, 10), prose(300, 11)])
    const bodies = [spoken(nine), { ...longer, ...cut }, longer]
    expect((await expectAsFromNothing(qwen, 'chat', bodies)).renderings).toBe(2)
  })
})

it('no hash is taken over of a token that goes on behind what two texts share', async () => {
  const one = createHashScheme({ blockSize: 1 })
  for (let place = 0; place < 48; place++) {
    const model = new ModelTokens(qwen, pool, { loopMsMax: Infinity })
    // A cut lies somewhere before the line, which is one token: the text goes on with a part of it, and so with another token.
    const start = `${'ee '.repeat(33)}${'e'.repeat(place)}`
    for (const prompt of [
      `${start}${'-'.repeat(64)}`,
      `${start}${'-'.repeat(40)}`,
      `${start}${'-'.repeat(40)} ${prose(400, 1)}`,
    ]) {
      const tokens = await model.tokenize('completions', { prompt })
      const fresh = await new ModelTokens(qwen, pool).tokenize('completions', { prompt })
      const wanted = [...fresh.blockHashes(one, hasher).sequenceColumn()]
      expect({ prompt, hashes: [...tokens.blockHashes(one, hasher).sequenceColumn()] }).toEqual({
        prompt,
        hashes: wanted,
      })
    }
    expect(model.counts.texts.hits).toBe(2)
  }
})

it('the hashes of a chat count wherever it is kept: as a text and as a rendering', async () => {
  const model = new ModelTokens(qwen, pool, { loopMsMax: Infinity })
  const tokens = await model.tokenize('chat', spoken(nine))
  const before = model.counts.cacheBytes
  const hashes = tokens.blockHashes(createHashScheme({ blockSize: 1 }), hasher)
  expect(hashes.count).toBe(tokens.ids.length)
  expect(model.counts.cacheBytes - before).toBe(2 * (hashes.local.byteLength + hashes.sequence.byteLength + 600))
})

it('a chat with special tokens around it is not continued from one without, nor the other way round', async () => {
  const wrapped = { ...spoken(nine), add_special_tokens: true }
  const longer = spoken([...nine, prose(300, 10), prose(300, 11)])
  const bodies = [wrapped, spoken(nine), { ...longer, add_special_tokens: true }, longer]
  expect((await expectAsFromNothing(tiny, 'chat', bodies)).renderings).toBe(3)
})

it('a chat that goes on with a mark for a letter before a run of others is normalised as one text', async () => {
  const source = '{% for message in messages %}{{ message.content }}{% endfor %}'
  const bare = { ...qwen, templates: [{ name: 'default', source, parsed: parseTemplate(source) }] }
  for (let place = 0; place < 48; place++) {
    const start = [...'ee '.repeat(33).split(/(?= )/), 'e'.repeat(place), `s${'\u0306'.repeat(24)}`]
    const bodies = [spoken(start), spoken([...start, '\u0327 and on'])]
    expect((await expectAsFromNothing(bare, 'chat', bodies)).renderings).toBe(1)
  }
})

it('a chat that has no cut begins with a word mark, whatever was encoded before it', async () => {
  const source = '{% for message in messages %}{{ message.content }}{% endfor %}'
  const bare = { ...tiny, templates: [{ name: 'default', source, parsed: parseTemplate(source) }] }
  const marked = nine.map((content) => `${content}▁`) // a section with the mark itself has no cuts
  const bodies = [nine, marked, [...nine, prose(300, 10)], [...marked, prose(300, 10)]].map(spoken)
  expect((await expectAsFromNothing(bare, 'chat', bodies)).renderings).toBe(2)
})

it('a text that the library encodes is taken only for itself', async () => {
  cpSync(tokenizerFolder('gpt2'), folder, { recursive: true })
  const file = JSON.parse(readFileSync(join(folder, 'tokenizer.json'), 'utf8')) as { pre_tokenizer: object }
  const end = '<|endoftext|>'
  const around = [{ SpecialToken: { id: end, type_id: 0 } }, { Sequence: { id: 'A', type_id: 0 } }]
  const special_tokens = { [end]: { id: end, ids: [50_256], tokens: [end] } }
  const post_processor = { type: 'TemplateProcessing', single: around, pair: [], special_tokens }
  const changed = { ...file, post_processor, pre_tokenizer: { ...file.pre_tokenizer, add_prefix_space: true } }
  writeFileSync(join(folder, 'tokenizer.json'), JSON.stringify(changed))
  const config = { tokenizer_class: 'PreTrainedTokenizerFast' } // of GPT-2's own class engines do not read those steps
  writeFileSync(join(folder, 'tokenizer_config.json'), JSON.stringify(config))
  const loaded = loadModel(folder, 'reused library')
  expect(loaded.vocabulary).toBeUndefined()
  const text = prose(400, 1)
  const model = new ModelTokens(loaded, pool)
  for (const prompt of [text, text.slice(0, 300), `${text.slice(0, 299)}!`, `${text} and on`, text]) {
    for (const isWrapped of [false, true]) {
      const fresh = await new ModelTokens(loaded, pool).encode(prompt, isWrapped)
      const ids = [...(await model.encode(prompt, isWrapped))]
      expect({ prompt, ids }).toEqual({ prompt, ids: [...fresh] })
      expect(ids[0] === 50_256).toBe(isWrapped)
    }
  }
  expect(model.counts.texts.hits).toBeGreaterThan(0)
  expect((await model.tokenize('completions', { prompt: text })).exactness).toBe('expected') // no recording is of it
  const marked = await model.encode('\ufeff and on', false)
  expect([...marked].slice(-2)).toEqual([...(await model.encode(' and on', false))].slice(-2))
  expect(marked.length).toBeGreaterThan(2)
})

it.each([
  ['letters', 'Ārzemēs ', true],
  ['letters that are changed first', 'e\u0301 and a\u0308 ', false],
  ['ASCII', 'abroad ', true],
])('a long text is read in steps, as often as it is asked for: %s', async (_says, words, isRemembered) => {
  const text = words.repeat(Math.ceil(300_000 / words.length))
  const wanted = realTokenizer('qwen3').newEncoder().encode(text)
  const model = new ModelTokens(qwen, pool)
  const encode = (): Promise<Uint32Array> => model.encode(text, false, { deadlineMs: 60_000 })
  expect(Buffer.from((await encode()).buffer).equals(Buffer.from(wanted.buffer, 0, wanted.byteLength))).toBe(true)
  const asked = model.counts.inThreads
  const { result, turns } = await turnsDuring(encode)
  expect(Buffer.from(result.buffer).equals(Buffer.from(wanted.buffer, 0, wanted.byteLength))).toBe(true)
  expect(turns).toBeGreaterThan(1)
  expect(model.counts.inThreads).toBe(isRemembered ? asked : asked + 1)
})

it('a text that is too long to be looked at on the loop has the special tokens around it, too', async () => {
  const text = 'then some '.repeat(220_000)
  const model = new ModelTokens(tiny, pool)
  const [bare, wrapped] = [
    await model.encode(text, false, { deadlineMs: 60_000 }),
    await model.encode(text, true, { deadlineMs: 60_000 }),
  ]
  const { specialsBefore } = model.plan
  expect(specialsBefore).toHaveLength(1)
  expect(Buffer.from(wrapped.buffer, 4).equals(Buffer.from(bare.buffer))).toBe(true)
  expect(wrapped[0]).toBe(specialsBefore[0])
  expect(model.counts.texts).toEqual({ hits: 0, misses: 0, evictions: 0 }) // nor is it looked for
}, 60_000)

describe('a text that its normaliser changes', () => {
  const changed = 'e\u0301 '.repeat(30)

  it('goes to a thread with a piece that would hold the loop, and has all of its ids', async () => {
    const model = new ModelTokens(qwen, pool)
    const text = changed + 'a'.repeat(5000) + changed
    const wanted = realTokenizer('qwen3').newEncoder().encode(text)
    expect([...(await model.encode(text, false))]).toEqual([...wanted])
    expect(model.counts).toMatchObject({ onLoop: 0, inThreads: 1 })
  })

  it('is encoded on the loop up to half of what may be encoded there', async () => {
    const bytes = Buffer.byteLength(changed)
    for (const [loopBytesMax, onLoop] of [
      [2 * bytes, 1],
      [2 * bytes - 1, 0],
    ] as const) {
      const model = new ModelTokens(qwen, pool, { loopBytesMax, loopMsMax: Infinity })
      await model.encode(changed, false)
      expect(model.counts).toMatchObject({ onLoop, inThreads: 1 - onLoop })
    }
  })
})

describe('what has held the loop for too long is left to a thread, with the same ids', () => {
  const noTime = { loopMsMax: -1 }

  it('a text', async () => {
    for (const text of [prose(9000, 1), `${prose(4000, 2)} e\u0301 ${prose(4000, 3)}`]) {
      const model = new ModelTokens(qwen, pool, noTime)
      const wanted = realTokenizer('qwen3').newEncoder().encode(text)
      expect([...(await model.encode(text, false))]).toEqual([...wanted])
      expect(model.counts).toMatchObject({ onLoop: 0, inThreads: 1 })
    }
  })

  it('a text that goes on from a remembered one', async () => {
    const model = new ModelTokens(qwen, pool, noTime)
    const [text, more] = [prose(3000, 1), prose(5000, 2)]
    await model.encode(text, false)
    const wanted = realTokenizer('qwen3')
      .newEncoder()
      .encode(text + more)
    expect([...(await model.encode(text + more, false))]).toEqual([...wanted])
    expect(model.counts).toMatchObject({ texts: { hits: 1 }, onLoop: 0, inThreads: 2 })
  })

  it('a template at work', async () => {
    const body = spoken(Array.from({ length: 200 }, (_, index) => `${index}`))
    const usual = await new ModelTokens(qwen, pool, { loopMsMax: Infinity }).tokenize('chat', body)
    const model = new ModelTokens(qwen, pool, noTime)
    expect([...(await model.tokenize('chat', body)).ids]).toEqual([...usual.ids])
    expect(model.counts.prefixes).toMatchObject({ hits: 0, misses: 0 }) // nothing was rendered to its end here
  })

  it('texts of a batch, a turn for each', async () => {
    const model = new ModelTokens(qwen, pool, noTime)
    const prompt = Array.from({ length: 20 }, (_, index) => `text ${index}`)
    let turns = 0
    let isOver = false
    const turn = (): void => void (isOver || (turns++, setImmediate(turn)))
    turn()
    expect((await model.tokenize('completions', { prompt })).promptCount).toBe(20)
    isOver = true
    expect(turns).toBeGreaterThan(19)
  })
})
