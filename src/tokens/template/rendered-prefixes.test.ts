// Goal: no order of growing, editing and mixing conversations, of other tools and other variables, makes a continued rendering
// differ from one that begins with nothing. Method: the same steps drive both; the cache's own comparison is off.
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { gunzipSync } from 'node:zlib'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { tokenizerFolder } from '../../../bench/tokens/texts.js'
import { RenderedPrefixes } from './rendered-prefixes.js'
import { parseTemplate } from './parse.js'
import type { Kept, Variables } from './renderings.case.js'
import { constants, conversation, keep, options, roomy } from './renderings.case.js'
import { Template } from './template.js'
import type { Value } from './values.js'
import { float } from './values.js'

/** What it renders, or that it throws. */
function outcome(render: () => string): string {
  try {
    return render()
  } catch {
    return 'threw'
  }
}

function configOf(name: 'qwen3' | 'llama3' | 'deepseek_v3'): string {
  const config = readFileSync(join(tokenizerFolder(name), 'tokenizer_config.json'), 'utf8')
  return (JSON.parse(config) as { chat_template: string }).chat_template
}

const recorded = JSON.parse(
  gunzipSync(readFileSync(new URL('../../../test/fixtures/jinja2/cases.json.gz', import.meta.url))).toString('utf8'),
) as { readonly chats: readonly { readonly model: string; readonly template: string }[] }

const templates: Readonly<Record<string, string>> = {
  qwen3: configOf('qwen3'),
  llama3: configOf('llama3'),
  deepseek: configOf('deepseek_v3'),
  tiny: recorded.chats.find((it) => it.model === 'tiny')!.template,
  counting: `{% set ns = namespace(n=0, seen='') %}{% for m in messages %}{% if ns.n % 2 == 0 %}[{{ ns.n }}{{ ns.seen }}]{% endif %}
    {%- if m.role != 'tool' %}{% set ns.n = ns.n + 1 %}{% endif %}{% if m.role == 'system' %}{% set ns.seen = m.content %}{% endif %}{{ m.content }}{% endfor %}{{ ns.n }}`,
  'looking ahead': `{% for m in messages %}{% if loop.nextitem and loop.nextitem.role == 'tool' %}>{% endif %}{{ m.content }}
    {%- if loop.last %}!{% elif messages[loop.index0 + 1].role == 'user' %}?{% endif %}{{ loop.cycle('a', 'b') }}{% endfor %}`,
  'looking back': `{% for m in messages %}{% set prev = messages[loop.index0 - 1] %}{{ prev.role }}:{{ m.content }}{% if loop.previtem is defined and loop.previtem.content == m.content %}={% endif %};{% endfor %}`,
  'with the end': `{% set last = messages[-1] %}{% for m in messages %}{% if m == last %}<{{ tools | tojson }}>{% endif %}{{ m.content }}{% if mode is defined %}{{ mode }}{% endif %}{% endfor %}`,
  'a macro': `{% macro show(m, mark='-') %}{% set body = m.content or '' %}{% for x in [1, 2] %}{{ mark }}{{ loop.index }}{% endfor %}{{ body }}{% endmacro %}
    {%- for m in messages %}{{ show(m) }}{{ show(m, mark=loop.index ~ mode) }}{% endfor %}`,
  'a macro that looks around': `{% macro show(m) %}{{ m.content }}{{ messages | length }}{% endmacro %}{% for m in messages %}{{ show(m) }}{% endfor %}`,
  leaving: `{% for m in messages %}{% if m.content == 'x' %}{% continue %}{% endif %}{% if m.role == 'system' and not loop.first %}{% break %}{% endif %}{{ loop.index }}{{ m.content }}{% endfor %}.`,
  shadowed: `{% set content = mode %}{% for m in messages %}{{ content }}{% set content = m.content %}{{ content }}{% for m in [1] %}{{ m }}{% else %}{{ loop.index }}{% endfor %}{% for x in [] %}{% else %}{{ loop.last }}{% endfor %}{% endfor %}{{ content }}`,
  'its own namespace': `{% for m in messages %}{% set ns = namespace(t='') %}{% for c in (m.content or '') %}{% set ns.t = c ~ ns.t %}{% endfor %}{{ ns.t }}{{ ns.u }}{% endfor %}`,
  'left alone': `{% set ns = namespace(s=mode) %}{% for m in messages %}{% if m.role == 'tool' %}{% set ns.s = m.content %}{% endif %}{{ m.content }}{% endfor %}{{ ns.s }}`,
  aliased: `{% set ns = namespace(a=1) %}{% set other = ns %}{% for m in messages %}{{ ns.a }}{% set other.a = other.a + 1 %}{{ m.content }}{% endfor %}`,
  'indexed by name': `{% set ns = namespace(a=1) %}{% set key = 'a' %}{% for m in messages %}{{ ns[key] }}{{ ns['a'] }}{% set ns.a = ns.a + loop.index0 %}{% endfor %}`,
  filtered: `{% for m in messages if m.role != mode %}{{ loop.index }}/{{ loop.length }}{{ m.content | upper | replace(mode or '-', '*') }}{% endfor %}`,
  'in a condition': `{% if mode %}{% for m in messages[1:] %}{{ m.content }}{% endfor %}{% else %}{% for m in messages %}{{ m.role }}{% for t in tools or [] %}{{ t.name }}{% endfor %}{% endfor %}{% endif %}`,
  'of parts': `{% for key, value in messages[0].items() %}{{ key }}={{ value }}{% endfor %}{% for m in messages %}{{ m.items() | list | length }}{{ m | tojson }}{% endfor %}`,
  dated: `{% for m in messages %}{{ strftime_now('%Y') }}{{ m.content }}{{ raise_exception(mode) if m.content == 'raise' }}{% endfor %}`,
}

type Step =
  | { readonly kind: 'append'; readonly chat: number; readonly messages: readonly Variables[] }
  | { readonly kind: 'edit'; readonly chat: number; readonly at: number; readonly message: Variables }
  | { readonly kind: 'cut'; readonly chat: number; readonly at: number }
  | { readonly kind: 'insert'; readonly chat: number; readonly at: number; readonly message: Variables }
  | { readonly kind: 'copy'; readonly chat: number; readonly from: number }
  | { readonly kind: 'tools'; readonly chat: number; readonly tools: Value }
  | { readonly kind: 'mode'; readonly chat: number; readonly mode: Value }

const text = fc.constantFrom(
  '',
  'x',
  'hello',
  'é好👍',
  '\ud83d',
  '\ude00 x',
  'a</think>b',
  '<tool_response>',
  'long '.repeat(40),
)
const anyMessage: fc.Arbitrary<Variables> = fc.oneof(
  { weight: 6, arbitrary: fc.record({ role: fc.constantFrom('user', 'assistant', 'system', 'tool'), content: text }) },
  { weight: 1, arbitrary: fc.record({ content: text, role: fc.constantFrom('user', 'assistant') }) }, // the other order of keys
  {
    weight: 1,
    arbitrary: fc.record({
      role: fc.constant('assistant'),
      content: text,
      reasoning_content: text,
      tool_calls: fc.constantFrom<Value>(
        [{ function: { name: 'f', arguments: { a: 1 } } }],
        [{ function: { name: 'f', arguments: { a: float(1) } } }],
        [],
      ),
    }),
  },
)
const anyTools = fc.constantFrom<Value>(
  null,
  [],
  [{ name: 'f' }],
  [{ name: 'f', x: 1 }, { name: 'g' }],
  [{ name: 'f', x: float(1) }],
)
const anyMode = fc.constantFrom<Value>(undefined, null, 'user', 'x', 1, true)
const chat = fc.nat({ max: 1 })
const at = fc.nat({ max: 12 })
const anyStep: fc.Arbitrary<Step> = fc.oneof(
  {
    weight: 6,
    arbitrary: fc.record({
      kind: fc.constant('append' as const),
      chat,
      messages: fc.array(anyMessage, { maxLength: 4 }),
    }),
  },
  { weight: 3, arbitrary: fc.record({ kind: fc.constant('edit' as const), chat, at, message: anyMessage }) },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant('insert' as const), chat, at, message: anyMessage }) },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant('cut' as const), chat, at }) },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant('copy' as const), chat, from: chat }) },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant('tools' as const), chat, tools: anyTools }) },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant('mode' as const), chat, mode: anyMode }) },
)

interface Chat {
  messages: Variables[]
  tools: Value
  mode: Value
}

function apply(chats: Chat[], step: Step): void {
  const it = chats[step.chat]!
  if (step.kind === 'append') it.messages.push(...step.messages)
  else if (step.kind === 'edit') it.messages[Math.min(step.at, it.messages.length)] = step.message
  else if (step.kind === 'insert') it.messages.splice(step.at, 0, step.message)
  else if (step.kind === 'cut') it.messages.length = Math.min(step.at, it.messages.length)
  else if (step.kind === 'copy') chats[step.chat] = { ...chats[step.from]!, messages: [...chats[step.from]!.messages] }
  else if (step.kind === 'tools') it.tools = step.tools
  else it.mode = step.mode
}

/** As a second request would bring it: equal, and not the same objects. */
function again(value: Value): Value {
  if (Array.isArray(value)) return value.map(again)
  if (typeof value !== 'object' || value === null || Object.getPrototypeOf(value) !== Object.prototype) return value
  return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, again(item as Value)]))
}

describe.each(Object.keys(templates))('%s', (name) => {
  const template = new Template(parseTemplate(templates[name]!))

  it.each([
    { says: 'in a cache that holds all', bytesMax: 8 << 20 },
    { says: 'in a cache that evicts', bytesMax: 9000 },
  ])('continued equals rendered from nothing, $says', ({ bytesMax }) => {
    fc.assert(
      fc.property(fc.array(anyStep, { minLength: 2, maxLength: 12 }), (steps) => {
        const prefixes = new RenderedPrefixes<Kept>(bytesMax, { comparedFirst: 0, comparedEvery: Infinity })
        const start: Variables[] = Array.from({ length: 8 }, (_, index) => ({
          role: index === 0 ? 'system' : index % 2 ? 'user' : 'assistant',
          content: `message ${index}`,
        }))
        const chats: Chat[] = [
          { messages: [...start], tools: null, mode: undefined },
          { messages: [...start], tools: [{ name: 'f' }], mode: 'user' },
        ]
        for (const step of steps) {
          apply(chats, step)
          const { messages, tools, mode } = chats[step.chat]!
          const variables: Variables = {
            messages: again(messages),
            tools: again(tools),
            mode,
            add_generation_prompt: true,
          }
          const wanted = outcome(() => template.render(variables, options, constants))
          const got = outcome(() => keep(prefixes.render(template, variables, options, constants)))
          expect({ text: got }).toEqual({ text: wanted })
          expect(prefixes.byteLength).toBeLessThanOrEqual(bytesMax)
        }
      }),
      { numRuns: 40 },
    )
  })
})

/** Loop turns that were taken over when a conversation goes on by one turn of each side. */
function turnsTaken(source: string, extra: Variables = {}): number {
  const template = new Template(parseTemplate(source))
  const prefixes = new RenderedPrefixes<Kept>(1 << 20)
  for (const length of [12, 14])
    keep(
      prefixes.render(
        template,
        { messages: again(conversation(length)), add_generation_prompt: true, ...extra },
        options,
        constants,
      ),
    )
  expect(prefixes.counts.refuted).toBe(0)
  return prefixes.counts.turns
}

describe('a conversation that goes on', () => {
  it.each([
    { name: 'qwen3', taken: 11 }, // the last answer loses its empty thought when a question follows it
    { name: 'llama3', taken: 12 },
    { name: 'deepseek', taken: 12 },
    { name: 'tiny', taken: 12 },
    { name: 'counting', taken: 12 },
    { name: 'looking ahead', taken: 11 },
    { name: 'a macro', taken: 12 },
    { name: 'a macro that looks around', taken: 0 },
    { name: 'aliased', taken: 12 },
    { name: 'shadowed', taken: 11 }, // the last is no longer the last
    { name: 'its own namespace', taken: 12 },
  ])('$name: takes over $taken of 12 messages', ({ name, taken }) => {
    expect(turnsTaken(templates[name]!, { mode: 'm' })).toBe(taken)
  })

  it('takes over printed tools, and prints those that changed', () => {
    const tools = Array.from({ length: 5 }, (_, index) => ({ name: `f${index}` }))
    const template = new Template(
      parseTemplate(
        '{% for t in tools %}{{ t | tojson }}{% endfor %}{% for m in messages %}{{ m.content }}{% endfor %}',
      ),
    )
    const prefixes = new RenderedPrefixes<Kept>(1 << 20)
    const render = (list: Value): string =>
      keep(prefixes.render(template, { messages: conversation(2), tools: list }, options))
    render(tools)
    expect(render(again(tools))).toContain('{"name": "f4"}')
    expect(prefixes.counts.turns).toBe(7)
    expect(render(tools.with(2, { name: 'other' }))).toContain('{"name": "f1"}{"name": "other"}{"name": "f3"}')
    expect(prefixes.counts).toMatchObject({ hits: 2, misses: 1, turns: 13 })
  })

  it('takes over turns whose condition is true for another reason', () => {
    const source = '{% for m in messages %}{% if tools %}T{% endif %}{{ m.content }}{% endfor %}'
    expect(turnsTaken(source, { tools: [{ name: 'f' }] })).toBe(12)
  })

  it('may be as long as the output limit, whatever of it is taken over, and no longer', () => {
    // In the middle a turn is rendered again, and its text is what it was.
    const source = '{% for m in messages %}{% if mode == m.content %}{% endif %}{{ m.content }}{% endfor %}'
    const template = new Template(parseTemplate(source))
    const messages = conversation(12)
    const { length } = template.render({ messages }, options)
    const within = (outputMax: number, isFirst: boolean): string => {
      const prefixes = new RenderedPrefixes<Kept>(1 << 20, { comparedFirst: 0 })
      if (!isFirst) keep(prefixes.render(template, { messages }, options))
      const limited = { ...options, limits: { ...roomy, outputMax } }
      const text = outcome(() => keep(prefixes.render(template, { messages, mode: 'turn 5' }, limited)))
      expect(prefixes.counts.turns).toBe(isFirst || text === 'threw' ? 0 : 11)
      return text
    }
    for (const isFirst of [true, false]) {
      expect(within(length, isFirst)).toHaveLength(length)
      expect(within(length - 1, isFirst)).toBe('threw')
    }
  })

  it('is refused at the output limit, however much of it is taken over', () => {
    const template = new Template(parseTemplate('{% for m in messages %}{{ m.content }}{% endfor %}'))
    const prefixes = new RenderedPrefixes<Kept>(1 << 20)
    const render = (outputMax: number, length: number): string =>
      keep(
        prefixes.render(template, { messages: conversation(length) }, { ...options, limits: { ...roomy, outputMax } }),
      )
    const size = render(1000, 20).length
    expect(() => render(size, 21)).toThrow('limit of output')
    expect(render(size + 7, 21)).toHaveLength(size + 7)
    expect(() => render(size + 6, 21)).toThrow('limit of output') // where nothing is written that is not taken over
  })
})

it('renders a template in full once a comparison has refuted it', () => {
  const honest = new Template(parseTemplate('{% for m in messages %}{{ m.content }}{% endfor %}'))
  let calls = 0
  const fickle = {
    replayedLoops: 1,
    render: (...args: Parameters<Template['render']>) => `${args[3] ? '' : calls++}${honest.render(...args)}`,
  } as unknown as Template
  const prefixes = new RenderedPrefixes<Kept>(1 << 20)
  const render = (length: number): string => keep(prefixes.render(fickle, { messages: conversation(length) }, options))
  render(9)
  expect(render(10)).toMatch(/^0turn 0/)
  expect(prefixes.counts).toMatchObject({ compared: 1, refuted: 1 })
  expect(render(11)).toMatch(/^1turn 0/)
  expect(prefixes.byteLength).toBe(0)
})

it('compares the first renderings of a template, and then some of them for as long as it is used', () => {
  const template = new Template(parseTemplate('{% for m in messages %}{{ m.content }}{% endfor %}'))
  const prefixes = new RenderedPrefixes<Kept>(1 << 20, { comparedFirst: 2, comparedEvery: 3 })
  const compared = Array.from({ length: 12 }, (_, index) => {
    keep(prefixes.render(template, { messages: conversation(9 + index) }, options))
    return prefixes.counts.compared
  })
  expect(compared).toEqual([0, 1, 2, 3, 3, 3, 4, 4, 4, 5, 5, 5]) // the first goes on from nothing
})

it('compares no head that would hold the loop, and nothing that is more work than is allowed', () => {
  const template = new Template(parseTemplate('{% for m in messages %}{{ m.content }}{% endfor %}'))
  const longer = { ...options, limits: { ...roomy, outputMax: 1 << 22 } }
  const compared = (messages: readonly Value[], second: typeof options): number => {
    const prefixes = new RenderedPrefixes<Kept>(1 << 24)
    keep(prefixes.render(template, { messages: messages.slice(0, -1) }, longer))
    expect(keep(prefixes.render(template, { messages }, second))).toBe(template.render({ messages }, longer))
    expect(prefixes.counts).toMatchObject({ hits: 1, refuted: 0 })
    return prefixes.counts.compared
  }
  const long = [{ role: 'system', content: 'x'.repeat(1 << 20) }, ...conversation(9)]
  expect(compared(long.slice(1), longer)).toBe(1)
  expect(compared(long, longer)).toBe(0)
  const steps = { ...options, limits: { ...roomy, stepsMax: 60 } }
  expect(() => template.render({ messages: conversation(40) }, steps)).toThrow()
  expect(compared(conversation(40), steps)).toBe(0)
})

it('keeps nothing of a template without a loop that can be gone on with', () => {
  const prefixes = new RenderedPrefixes<Kept>(1 << 20)
  keep(
    prefixes.render(new Template(parseTemplate('{{ messages[0].content }}')), { messages: conversation(9) }, options),
  )
  expect([prefixes.byteLength, prefixes.counts.misses]).toEqual([0, 0])
})

it('goes on from a rendering of the same template only', () => {
  const prefixes = new RenderedPrefixes<Kept>(1 << 20, { comparedFirst: 0, comparedEvery: Infinity })
  const [square, round] = ['[]', '()'].map(
    (brackets) =>
      new Template(parseTemplate(`{% for m in messages %}${brackets[0]}{{ m.content }}${brackets[1]}{% endfor %}`)),
  )
  for (const [template, length] of [
    [square!, 9],
    [round!, 10],
    [square!, 10],
    [round!, 9],
    [round!, 11],
  ] as const) {
    const variables = { messages: again(conversation(length)) }
    expect(keep(prefixes.render(template, variables, options))).toBe(template.render(variables, options))
  }
  expect(prefixes.counts).toMatchObject({ hits: 3, misses: 2 })
})

it('compares in what the first rendering left of its time, and not at all where it left none', () => {
  const honest = new Template(parseTemplate('{% for m in messages %}{{ m.content }}{% endfor %}'))
  const given: number[] = []
  let now = 0
  let takesMs = 3
  const slow = {
    replayedLoops: 1,
    render: (...args: Parameters<Template['render']>) => {
      given.push(args[1].limits.deadlineMs)
      now += takesMs
      return honest.render(...args)
    },
  } as unknown as Template
  const prefixes = new RenderedPrefixes<Kept>(1 << 20)
  const limits = { ...roomy, deadlineMs: 4 }
  const render = (length: number): string =>
    keep(prefixes.render(slow, { messages: conversation(length) }, { ...options, limits, now: () => now }))
  render(9)
  render(10)
  expect(given).toEqual([4, 4, 1])
  takesMs = 4
  render(11)
  expect(given).toEqual([4, 4, 1, 4])
  expect(prefixes.counts).toMatchObject({ hits: 2, compared: 1, refuted: 0 })
})

it('takes no turn over whose condition can no longer be read', () => {
  const template = new Template(
    parseTemplate('{% for m in messages %}{% if x > 3 %}A{% endif %}{{ m.content }}{% endfor %}'),
  )
  const prefixes = new RenderedPrefixes<Kept>(1 << 20, { comparedFirst: 0 })
  const messages = Array.from({ length: 9 }, (_, index) => ({ role: 'user', content: `m${index}` }))
  keep(prefixes.render(template, { messages, x: 5 }, options, constants))
  expect(() => prefixes.render(template, { messages, x: 'q' }, options, constants)).toThrow('cannot compare')
})
