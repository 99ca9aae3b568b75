// What a thread says of what it read: the loop goes by it, and does not look at the texts themselves. What no answer shows, what it gives
// away and what it keeps, is asked of its functions in this thread.
import { mkdirSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Tinypool } from 'tinypool'
import { afterAll, expect, it } from 'vitest'
import { prose, tokenizerFolder } from '../../../bench/tokens/texts.js'
import { plainRules } from '../chat/build-prompt.js'
import type { Route } from '../chat/request.js'
import { loadModel } from '../model/loaded-model.js'
import { TokenPool } from './pool.js'
import type { Answer, EncodeResult, ModelTables, TaskTypes } from './tasks.js'
import * as worker from './worker.js'

const pool = new TokenPool({ threads: 1 })
afterAll(() => pool.close())

const shown = '{{ messages[0].content }}'
const chat = { messages: [{ role: 'user', content: 'é😀x' }] }

interface Asked {
  readonly key?: string
  readonly source?: string
  readonly deadlineMs?: number
  readonly signal?: AbortSignal
}

function read(
  route: Route,
  body: object,
  { key = 'shown', source = shown, deadlineMs = 60_000, signal }: Asked = {},
): Promise<TaskTypes['render']['result']> {
  const raw = new TextEncoder().encode(JSON.stringify(body))
  const templates = [{ name: 'default', source }]
  const task = { key, templates, specials: {}, route, raw, rules: plainRules, outputMax: 1000, deadlineMs }
  return pool.run('render', task, { deadlineMs: 20_000, signal })
}

it('a text has as many units as it has in UTF-16, however many bytes those are', async () => {
  expect(await read('chat', chat)).toMatchObject({
    kind: 'chat',
    text: { bytes: new TextEncoder().encode('é😀x'), units: 4 },
  })
  const texts = await read('completions', { prompt: ['é', '', '😀x'] })
  const [ends, units] = [Uint32Array.of(2, 2, 7), Uint32Array.of(1, 0, 3)]
  expect(texts).toMatchObject({ kind: 'text', bytes: new TextEncoder().encode('é😀x'), ends, units })
})

it('a model has its own template, also where another was rendered before', async () => {
  await read('chat', chat)
  const other = await read('chat', chat, { key: 'other', source: `${shown}!` })
  expect(other).toMatchObject({ text: { bytes: new TextEncoder().encode('é😀x!') } })
})

const endless = '{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}'

it('a task that left while it waited is given no thread, which would be lost to the others', async () => {
  const [runs, waits] = [new AbortController(), new AbortController()]
  const held = expect(read('chat', chat, { key: 'held', source: endless, signal: runs.signal })).rejects.toThrow('held')
  const left = expect(read('chat', chat, { signal: waits.signal })).rejects.toThrow('left')
  waits.abort(new Error('left'))
  await left
  runs.abort(new Error('held'))
  await held
  expect(await read('chat', chat)).toMatchObject({ kind: 'chat' })
  expect(pool.running).toBe(0)
})

it('a template that takes too long ends by itself, and the thread with its caches stays', async () => {
  const { ended } = pool.counts
  const late = read('chat', chat, { key: 'endless', source: endless, deadlineMs: 1 })
  await expect(late).rejects.toMatchObject({ code: 'WR_TOKENS_DEADLINE' })
  expect(pool.counts.ended).toBe(ended)
})

it('what shows the time is not proven, and what does not is', async () => {
  const dated = await read('chat', chat, { key: 'dated', source: `${shown}{{ strftime_now('%Y') }}` })
  expect(dated).toMatchObject({ isProven: false })
  expect(await read('chat', chat)).toMatchObject({ isProven: true })
})

it('a template that fails says why', async () => {
  const failed = read('chat', chat, { key: 'raises', source: '{{ raise_exception("no such role") }}' })
  const error = { code: 'WR_TOKENS_TEMPLATE_FAILED', details: { reason: 'no such role' } }
  await expect(failed).rejects.toMatchObject(error)
})

it('a folder whose files cannot be read is a bad tokenizer', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'warmroute-worker-'))
  mkdirSync(join(folder, 'tokenizer.json'))
  try {
    const loading = pool.run('load', { folder, key: folder, reading: 'built' }, { deadlineMs: 60_000 })
    await expect(loading).rejects.toMatchObject({ code: 'WR_TOKENS_BAD_TOKENIZER' })
  } finally {
    rmSync(folder, { recursive: true })
  }
})

it('of ids that are cut the rest is let go', async () => {
  const cut = await read('completions', { prompt: [1, 2, 3, 4, 5], truncate_prompt_tokens: 3 })
  expect(cut).toMatchObject({ kind: 'ids', ids: Uint32Array.of(3, 4, 5) })
  expect(cut.kind === 'ids' && cut.ids.buffer.byteLength).toBe(12)
})

/** What an answer gives away, and the answer. */
function given<T>(answer: Answer<T>): { readonly away: readonly unknown[]; readonly value: T } {
  const moved = answer as unknown as Record<symbol, unknown>
  const done = moved[Tinypool.valueSymbol] as Extract<Answer<T>, { kind: 'done' }>
  return { away: moved[Tinypool.transferableSymbol] as unknown[], value: done.value }
}

function encodeHere(model: ModelTables, text: string): ReturnType<typeof given<EncodeResult>> {
  return given(worker.encode({ model, text: new TextEncoder().encode(text), isContinued: false }))
}

const { plan, vocabulary, library } = loadModel(tokenizerFolder('qwen3'), 'here')
const modelOf = (key: string): ModelTables => ({ key, plan, vocabulary, library })

it('arrays are given away: a copy of them would be made on the loop', () => {
  const encoded = encodeHere(modelOf('given'), prose(500, 1))
  expect(encoded.away).toEqual([encoded.value.ids.buffer, encoded.value.cuts.buffer])
  const task = { key: 'given', templates: [{ name: 'default', source: shown }], specials: {}, rules: plainRules }
  const render = (route: Route, body: object): ReturnType<typeof given<TaskTypes['render']['result']>> => {
    const raw = new TextEncoder().encode(JSON.stringify(body))
    return given(worker.render({ ...task, route, raw, outputMax: 1000, deadlineMs: 60_000 }))
  }
  for (const { away, value } of [
    render('chat', chat),
    render('completions', { prompt: ['a', 'b'] }),
    render('completions', { prompt: [1, 2] }),
  ]) {
    if (value.kind === 'chat') expect(away).toEqual([value.text.bytes.buffer])
    else if (value.kind === 'ids') expect(away).toEqual([value.ids.buffer])
    else expect(away).toEqual([value.bytes.buffer, value.ends.buffer, value.units.buffer])
  }
  const answered = given(worker.answer({ bytes: new TextEncoder().encode('{"tokens":[1,2]}') }))
  expect(answered.away).toEqual([answered.value.ids!.buffer])
  expect(given(worker.answer({ bytes: new TextEncoder().encode('{}') })).away).toEqual([])
})

it('keeps the caches of the four models that it encoded for last, within their bytes', () => {
  const text = `x<|im_end|>${prose(4000, 1)}<|im_end|>`
  const [first, ...others] = ['a', 'b', 'c', 'd', 'e'].map((key) => () => encodeHere(modelOf(key), text).value)
  const { pieces, segments } = first!().counted!
  expect([pieces.misses > 0, segments.misses]).toEqual([true, 1])
  for (const encode of others.slice(0, 3)) encode()
  expect(first!().counted).toMatchObject({ pieces: { misses: 0 }, segments: { hits: 1, misses: 0 } })
  for (const encode of others) encode()
  const { counted, held } = first!()
  expect(counted!.pieces.misses).toBe(pieces.misses)
  expect(held.bytes).toBeGreaterThan(0)
  expect(held.bytes).toBeLessThanOrEqual(8 << 20)
})

it('a model that is none fails as a source of tokens does', () => {
  const broken = { ...modelOf('broken'), plan: new SharedArrayBuffer(1) }
  const answer = worker.encode({ model: broken, text: new Uint8Array(1), isContinued: false })
  expect(answer).toMatchObject({ kind: 'failed', code: 'WR_TOKENS_SOURCE_FAILED' })
})
