// A template that shows the date: its tokens follow the clock and are only expected to be the engine's, and no cache keeps yesterday.
import { afterAll, expect, it } from 'vitest'
import type { Body } from '../chat/request.js'
import { TokenPool } from '../pool/pool.js'
import { tinyllamaFolder } from '../real-tokenizers.case.js'
import { parseTemplate } from '../template/parse.js'
import { loadModel } from './loaded-model.js'
import { ModelTokens } from './model-tokens.js'

const pool = new TokenPool({ threads: 1 })
afterAll(() => pool.close())

// As Llama 3.1 does it: the date is the request's, or the clock's.
const source = `{%- if not date_string is defined %}{% set date_string = strftime_now("%d %b %Y") %}{% endif -%}
Today Date: {{ date_string }}
{% for m in messages %}{{ m.role }}: {{ m.content }}{{ strftime_now(' %d') if m.dated }}
{% endfor %}`
const loaded = loadModel(tinyllamaFolder, 'dated')
const dated = { ...loaded, templates: [{ name: 'default', source, parsed: parseTemplate(source) }] }

const chat: Body = { messages: Array.from({ length: 12 }, (_, at) => ({ role: 'user', content: `word ${at}` })) }
const told: Body = { ...chat, chat_template_kwargs: { date_string: '26 Jul 2024' } }

it.each([
  { says: 'the clock was read', body: chat, exactness: 'expected' },
  { says: 'it was not, although the template could', body: told, exactness: 'proven' },
])('says how tokens are known where $says', async ({ body, exactness }) => {
  const model = new ModelTokens(dated, pool)
  const raw = new TextEncoder().encode(JSON.stringify(body))
  expect(await model.tokenize('chat', body)).toMatchObject({ exactness })
  expect(await model.tokenize('chat', undefined, { raw })).toMatchObject({ exactness }) // read and rendered in a thread
})

it('shows the new date after midnight, whatever it remembers', async () => {
  let time = new Date(2026, 10, 5, 23, 59, 59)
  const date = (): Date => time
  const model = new ModelTokens(dated, pool, { date, loopMsMax: Infinity })
  const before = await model.tokenize('chat', chat)
  time = new Date(2026, 10, 6, 0, 0, 1)
  const after = await model.tokenize('chat', chat)
  const fresh = await new ModelTokens(dated, pool, { date, keepsRenderings: false }).tokenize('chat', chat)
  expect([...after.ids]).toEqual([...fresh.ids])
  expect([...after.ids]).not.toEqual([...before.ids])
  expect(model.counts.prefixes).toMatchObject({ hits: 1, refuted: 0 }) // the messages were taken over, the date was not
})
