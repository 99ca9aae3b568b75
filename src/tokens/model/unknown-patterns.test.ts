// Pre-tokenizers whose pattern is none that we know: how long one takes nobody can say, and some never end. Issue 7.
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, expect, it } from 'vitest'
import { prose } from '../../../bench/tokens/texts.js'
import { TokenPool } from '../pool/pool.js'
import { patternOfGptOss, patternOfTekken, readTokenizerText, splitBy } from '../real-tokenizers.case.js'
import type { Step, TokenizerFile } from '../vocabulary/tokenizer-file.js'
import { loadModel } from './loaded-model.js'
import { ModelTokens } from './model-tokens.js'

const pool = new TokenPool({ threads: 1 })
const folders: string[] = []
afterAll(async () => {
  await pool.close()
  for (const folder of folders) rmSync(folder, { recursive: true, force: true })
})

/** GPT-2, cut by another pattern, and perhaps by other steps before. */
function modelWith(regex: string, before: readonly Step[] = []): ModelTokens {
  const folder = mkdtempSync(join(tmpdir(), 'warmroute-pattern-'))
  folders.push(folder)
  const own = splitBy(regex)
  const file: TokenizerFile = {
    ...(JSON.parse(readTokenizerText('gpt2')) as TokenizerFile),
    pre_tokenizer: { ...own, pretokenizers: [...before, ...own.pretokenizers] },
  }
  writeFileSync(join(folder, 'tokenizer.json'), JSON.stringify(file))
  writeFileSync(
    join(folder, 'chat_template.jinja'),
    '{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}',
  )
  return new ModelTokens(loadModel(folder, folder), pool, { loopMsMax: 60_000 })
}

it('a pattern that never ends is ended with its thread, at its deadline, and the next text has another', async () => {
  const model = modelWith(String.raw`(?:a+)+b|\S+|\s+`)
  const wanted = await model.encode('a word', false, { deadlineMs: 60_000 })
  const late = model.encode(`${'a'.repeat(60)}!`, false, { deadlineMs: 200 })
  await expect(late).rejects.toMatchObject({ code: 'WR_TOKENS_DEADLINE' })
  expect(pool.counts.ended).toBe(1)
  expect(await model.encode('a word', false, { deadlineMs: 60_000 })).toEqual(wanted)
  expect(model.counts).toMatchObject({ onLoop: 0, inThreads: 3 })
}, 120_000)

it("what the library encodes is expected to be the engine's, and no more: chats, texts, and what is read in a thread", async () => {
  const model = modelWith(String.raw`\S+|\s+`)
  const chat = { messages: [{ role: 'user', content: 'a few words' }] }
  const raw = Buffer.from(JSON.stringify({ ...chat, user: 'x' }))
  const deadlineMs = 60_000
  expect((await model.tokenize('chat', chat, { deadlineMs })).exactness).toBe('expected')
  expect((await model.tokenize('chat', undefined, { raw, deadlineMs })).exactness).toBe('expected')
  expect((await model.tokenize('completions', { prompt: 'a few words' }, { deadlineMs })).exactness).toBe('expected')
}, 60_000)

it('a burst of short texts waits for its thread', async () => {
  const model = modelWith(String.raw`\S+|\s+`)
  const texts = Array.from({ length: 200 }, (_, at) => `text ${at} of many`)
  const ids = await Promise.all(texts.map((text) => model.encode(text, false, { deadlineMs: 60_000 })))
  expect(ids.every((it) => it.length > 3)).toBe(true)
}, 60_000)

it('other texts wait while one hangs, and are answered by the thread that comes after', async () => {
  const model = modelWith(String.raw`(?:a+)+b|\S+|\s+`)
  const late = model.encode(`${'a'.repeat(60)}!`, false, { deadlineMs: 200 })
  const others = ['one', 'two words'].map((text) => model.encode(text, false, { deadlineMs: 60_000 }))
  await expect(late).rejects.toMatchObject({ code: 'WR_TOKENS_DEADLINE' })
  expect((await Promise.all(others)).every((it) => it.length > 0)).toBe(true)
}, 60_000)

const digits: Step = { type: 'Digits', individual_digits: true }

it.each([
  { says: 'we have a twin of it', regex: patternOfGptOss, before: [], onLoop: 2, inThreads: 0 },
  { says: 'it is one of several', regex: patternOfTekken, before: [digits], onLoop: 1, inThreads: 1 },
  { says: 'no, nobody knows it', regex: String.raw`\S+|\s+`, before: [], onLoop: 0, inThreads: 2 },
])(
  'a short text is cut on the loop where its pattern is known to end: $says',
  async ({ regex, before, onLoop, inThreads }) => {
    const model = modelWith(regex, before)
    await model.encode(prose(2000, 1), false, { deadlineMs: 60_000 })
    await model.encode(prose(20_000, 2), false, { deadlineMs: 60_000 })
    expect(model.counts).toMatchObject({ onLoop, inThreads })
  },
  60_000,
)
