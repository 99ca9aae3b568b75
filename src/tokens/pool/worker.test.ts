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
}

function read(
  route: Route,
  body: object,
  { key = 'shown', source = shown, deadlineMs = 60_000 }: Asked = {},
): Promise<TaskTypes['render']['result']> {
  const raw = new TextEncoder().encode(JSON.stringify(body))
  const templates = [{ name: 'default', source }]
  const task = { key, templates, specials: {}, route, raw, rules: plainRules, outputMax: 1000, deadlineMs }
  return pool.run('render', task, { deadlineMs: 20_000 })
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

it('a template that takes too long ends by itself, and the thread with its caches stays', async () => {
  const source = '{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}'
  const late = read('chat', chat, { key: 'endless', source, deadlineMs: 1 })
  await expect(late).rejects.toMatchObject({ code: 'WR_TOKENS_DEADLINE' })
  expect(pool.counts.ended).toBe(0)
})

it('what shows the time is not proven, and what does not is', async () => {
  const dated = await read('chat', chat, { key: 'dated', source: `${shown}{{ strftime_now('%Y') }}` })
  expect(dated).toMatchObject({ isProven: false })
  expect(await read('chat', chat)).toMatchObject({ isProven: true })
})
