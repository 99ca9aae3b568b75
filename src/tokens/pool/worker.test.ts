// What a thread says of what it read: the loop goes by it, and does not look at the texts themselves.
import { afterAll, expect, it } from 'vitest'
import { plainRules } from '../chat/build-prompt.js'
import type { Route } from '../chat/request.js'
import { TokenPool } from './pool.js'
import type { TaskTypes } from './tasks.js'

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
