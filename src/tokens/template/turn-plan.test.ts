// Goal: no turn of a loop is taken over whose text would be another now. Method: a rendering is kept, then something changes that the
// template could see in a way of its own, and the next one is compared with one that begins with nothing.
import { expect, it } from 'vitest'
import { parseTemplate } from './parse.js'
import { RenderedPrefixes, wholeText } from './rendered-prefixes.js'
import { Template } from './template.js'
import type { Value } from './values.js'
import { float } from './values.js'

type Variables = Readonly<Record<string, Value>>

const limits = { stepsMax: Infinity, outputMax: 1 << 20, deadlineMs: 10_000 }
const says = (content: Value): Variables => ({ role: 'user', content })
const messages = Array.from({ length: 9 }, (_, index) => says(`m${index}`))
const edited = (at: number, content: Value): readonly Value[] => messages.with(at, says(content))

function outcome(render: () => string): string {
  try {
    return render()
  } catch {
    return 'threw'
  }
}

/** The second of two renderings, and the same from nothing. */
function both(source: string, before: Variables, after: Variables): { readonly got: string; readonly wanted: string } {
  const template = new Template(parseTemplate(source))
  const prefixes = new RenderedPrefixes<{ readonly bytes: Uint8Array }>(1 << 20, {
    comparedFirst: 0,
    comparedEvery: Infinity,
  })
  const at = (year: number): { readonly limits: typeof limits; now: () => number; date: () => Date } => ({
    limits,
    now: () => 0,
    date: () => new Date(year, 1, 1),
  })
  const first = prefixes.render(template, { messages, ...before }, at(2025))
  first.keep?.({ bytes: new TextEncoder().encode(wholeText(first)) })
  const variables = { messages, ...after }
  return {
    got: outcome(() => wholeText(prefixes.render(template, variables, at(2026)))),
    wanted: outcome(() => template.render(variables, at(2026))),
  }
}

const counting = '{% set ns = namespace(n=0) %}'
it.each<{ says: string; template: string; before?: Variables; after?: Variables }>([
  { says: 'the date', template: `{% for m in messages %}{{ strftime_now('%Y') }}{{ m.content }}{% endfor %}` },
  {
    says: 'the date, by a function that an item holds',
    template: `{% for m in [{'f': strftime_now}, 1] %}{{ m.f('%Y') if m.f }}{% endfor %}`,
  },
  {
    says: 'a method by its name',
    template: '{% for m in messages %}{{ m.content[mode]() }}{% endfor %}',
    before: { mode: 'upper' },
    after: { mode: 'lower' },
  },
  {
    says: 'a name that a macro reads before it sets it',
    template:
      '{% macro s(m) %}{% set y = y ~ m.content %}{{ y }}{% endmacro %}{% for m in messages %}{{ s(m) }}{% endfor %}',
    before: { y: 'a' },
    after: { y: 'b' },
  },
  {
    says: 'the same, by a macro that calls it, and that was there before it',
    template: `{% macro s() %}1{% endmacro %}{% macro t(m) %}{{ s() }}{{ m.content }}{% endmacro %}
      {%- macro s() %}{% set y = y ~ '!' %}{{ y }}{% endmacro %}{% for m in messages %}{{ t(m) }}{% endfor %}`,
    before: { y: 'a' },
    after: { y: 'b' },
  },
  {
    says: 'the same, by a macro behind it',
    template: `{% macro s() %}{% set y = y ~ '!' %}{{ y }}{% endmacro %}{% macro t(m) %}{{ s() }}{{ m.content }}{% endmacro %}
      {%- for m in messages %}{{ t(m) }}{% endfor %}`,
    before: { y: 'a' },
    after: { y: 'b' },
  },
  {
    says: 'a function that is none any more',
    template: '{% for m in messages %}{% for x in range(2) %}{{ m.content }}{% endfor %}{% endfor %}',
    after: { range: 'x' },
  },
  {
    says: 'what a macro counts in a namespace that it is given',
    template: `${counting}{% macro bump(n) %}{% set n.n = n.n + 1 %}{{ n.n }}{% endmacro %}
      {%- for m in messages %}{{ bump(ns) }}{{ mode }}{{ m.content }}{% endfor %}{{ ns.n }}`,
    before: { mode: 'a' },
    after: { mode: 'b' },
  },
  {
    says: 'what a macro counts in one that it has another name for',
    template: `${counting}{% macro bump(n) %}{% set o = n %}{% set o.n = o.n + 1 %}{{ o.n }}{% endmacro %}
      {%- for m in messages %}{{ bump(ns) }}{{ mode }}{{ m.content }}{% endfor %}{{ ns.n }}`,
    before: { mode: 'a' },
    after: { mode: 'b' },
  },
  {
    says: 'what it counts in one that is its own only at times',
    template: `${counting}{% macro bump(n) %}{% if not n %}{% set n = namespace(n=0) %}{% endif %}{% set n.n = n.n + 1 %}{{ n.n }}{% endmacro %}
      {%- for m in messages %}{{ bump(ns) }}{{ mode }}{{ m.content }}{% endfor %}{{ ns.n }}`,
    before: { mode: 'a' },
    after: { mode: 'b' },
  },
  {
    says: 'what it counts where it goes by another name',
    template: `${counting}{% macro bump(n) %}{% set n.n = n.n + 1 %}{{ n.n }}{% endmacro %}{% set d = {'f': bump} %}
      {%- for m in messages %}{{ d.f(ns) }}{{ mode }}{{ m.content }}{% endfor %}{{ ns.n }}`,
    before: { mode: 'a' },
    after: { mode: 'b' },
  },
  {
    says: 'an attribute by a name of its own',
    template: `{% set ns = namespace(a=1, b=1) %}{% for m in messages %}{{ ns[mode] }}{% if loop.index == 3 %}{% set ns.b = 2 %}{% endif %}{{ m.content }}{% endfor %}`,
    before: { mode: 'a' },
    after: { mode: 'b' },
  },
  {
    says: 'what can be walked over once',
    template: `{% set it = messages | map(attribute='content') %}{% for m in messages %}{% if it | first == m.content %}={% endif %}{{ it | first }}{{ m.content }}{% endfor %}`,
    after: { messages: edited(2, 'm4') },
  },
  {
    says: 'the sign of nothing',
    template: '{% for m in messages %}{{ m.content }},{% endfor %}',
    before: { messages: edited(1, float(0)) },
    after: { messages: edited(1, float(-0)) },
  },
  {
    says: 'a list that was a text',
    template: '{% for m in messages %}{{ m.content | length }}{{ m.content }}{% endfor %}',
    before: { messages: edited(1, ['a']) },
    after: { messages: edited(1, { 0: 'a' }) },
  },
  {
    says: 'an order of keys that are numbers',
    template: '{% for m in messages %}{{ m.content }}{% endfor %}',
    before: {
      messages: edited(
        1,
        new Map<Value, Value>([
          [1, 'a'],
          [2, 'a'],
        ]),
      ),
    }, // prettier-ignore
    after: {
      messages: edited(
        1,
        new Map<Value, Value>([
          [2, 'a'],
          [1, 'a'],
        ]),
      ),
    }, // prettier-ignore
  },
  {
    says: 'another view of the same mapping',
    template: `{% set view = d.keys() if mode else d.values() %}{% for m in messages %}{{ view }}{{ m.content }}{% endfor %}`,
    before: { mode: true, d: { a: 'a' } },
    after: { mode: false, d: { a: 'a' } },
  },
])('takes over no turn that would show another: $says', ({ template, before = {}, after = {} }) => {
  const { got, wanted } = both(template, before, after)
  expect(got).toBe(wanted)
})

// Each of them holds the one before twice: to walk over all of the last would take for ever.
it.each(['[ns.x, ns.x]', "{'a': ns.x, 'b': ns.x}"])('is done with what holds itself very often: %s', (twice) => {
  const { got, wanted } = both(
    `{% set ns = namespace(x=1, y=1) %}{% for i in range(28) %}{% set ns.x = ${twice} %}{% endfor %}
      {%- for m in messages %}{{ m.content }}{% set ns.y = ns.x %}{% endfor %}`,
    {},
    {},
  )
  expect(got).toBe(wanted)
})
