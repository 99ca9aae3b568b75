import { readFileSync } from 'node:fs'
import { gunzipSync } from 'node:zlib'
import { describe, expect, it } from 'vitest'
import { parsePythonJson } from './python-json.js'
import type { RunLimits } from './run.js'
import { TemplateLimitError } from './run.js'
import { parseTemplate } from './parse.js'
import { Template } from './template.js'
import type { Value } from './values.js'

interface RecordedCase {
  readonly template: string
  readonly output?: string
  readonly error?: string
}

interface RecordedChat extends RecordedCase {
  readonly model: string
  readonly conversation: string
  readonly variables: Readonly<Record<string, Value>>
}

const recorded = parsePythonJson(
  gunzipSync(readFileSync(new URL('../../../test/fixtures/jinja2/cases.json.gz', import.meta.url))).toString('utf8'),
) as unknown as {
  readonly values: Readonly<Record<string, Value>>
  readonly expressions: readonly RecordedCase[]
  readonly chats: readonly RecordedChat[]
}

const roomy: RunLimits = { stepsMax: Infinity, outputMax: 1 << 20, deadlineMs: 10_000 }

function render(source: string, variables: Readonly<Record<string, Value>>, limits: RunLimits = roomy): string {
  let clock = 0
  const options = { limits, now: () => clock++, date: () => new Date(2026, 10, 5, 14, 5, 9) }
  return new Template(parseTemplate(source)).render(variables, options)
}

function outcome(source: string, variables: Readonly<Record<string, Value>>): { output: string } | { error: true } {
  try {
    return { output: render(source, variables) }
  } catch {
    return { error: true }
  }
}

function wanted(it: RecordedCase): { output: string } | { error: true } {
  return it.output === undefined ? { error: true } : { output: it.output }
}

describe('renders what Python renders', () => {
  it.each(recorded.expressions)('$template', (it) => {
    expect(outcome(it.template, recorded.values)).toEqual(wanted(it))
  })

  const chats = recorded.chats.map((it, index) => ({ ...it, index }))
  it.each(chats)('$index: $model, $conversation', (it) => {
    expect(outcome(it.template, it.variables)).toEqual(wanted(it))
  })
})

// What Python would render and we do not know how: no text is better than another one.
it.each([
  '{{ self }}',
  '{% set loop = 1 %}',
  '{% macro m(caller) %}{% endmacro %}',
  "{{ '%05.2f' % f }}",
  "{{ '%x' % i }}",
  "{{ '%d' % g }}",
  "{{ '{:.2f}'.format(f) }}",
  "{{ '{0[0]}'.format(l) }}",
  "{{ strftime_now('%c') }}",
  "{{ strftime_now('%_d') }}",
  "{{ 'abcb'.find('b', 2) }}",
  "{{ 'abcb'.count('b', 2) }}",
  "{{ 'abcb'.startswith('c', 2) }}",
  "{{ 'a\\nb'.splitlines(true) }}",
  '{{ dict([[1, 2]]) }}',
  '{{ (1,) }}',
  '{{ () }}',
  '{{ 12345678901234567890 }}',
  "{{ '\\N{DASH}' }}",
  "{{ '\\ud83d' }}",
  "{{ ('<b>' | safe).upper() }}",
  "{{ '<b>' | safe | upper }}",
  "{{ [('<b>' | safe)] }}",
  '{{ l | select }}',
  '{{ d.keys() == d.keys() }}',
  "{{ '٣' | int }}",
  "{{ 'inf' | float }}",
  "{{ '1e400' | float }}",
  '{{ 1e400 }}',
  '{{ 1e308 * 10 }}',
  '{{ [0.1, 0.2] | sum }}',
  '{{ (-2) ** i }}',
  '{{ {1.0: 2} }}',
  '{{ {1: 2, true: 3} }}',
  '{{ {(1, 2): 3} }}',
  '{{ range(3) }}',
  '{{ range(3) == l }}',
  '{{ range(3)[1:] }}',
  '{{ i.real }}',
  '{{ s.encode is defined }}',
  '{{ (l | select).gi_running }}',
  '{{ (d | items).send is defined }}',
  '{% macro m(a) %}{% endmacro %}{{ m.name }}',
  '{{ dict.fromkeys is defined }}',
  '{{ i is sameas 3 }}',
  "{{ 'ß'.casefold() }}",
  "{{ 'ßa'.capitalize() }}",
  "{{ '²'.isdigit() }}",
  "{{ '一'.isnumeric() }}",
  "{{ 1 | tojson(separators=',:') }}",
  '{{ 1.5 | round(23) }}',
  '{{ 2 ** 5000 }}',
  '{{ 2.5 ** 2.5 }}',
  '{{ (3 ** 1000) ** 1000 }}',
  '{% set ns = namespace(x=3) %}{% for i in range(20) %}{% set ns.x = ns.x * ns.x %}{% endfor %}',
  '{{ 15 | round(-1) }}',
  '{{ l | batch(2) | list }}',
  '{% for x in l recursive %}{% endfor %}',
  '{% for x in (l if i) %}{{ x }}{% endfor %}',
  '{% set x | upper %}a{% endset %}',
  '{% for x in l %}{% set y %}{% continue %}{% endset %}{% endfor %}',
  '{% with (a, b) = pairs[0] %}{% endwith %}',
])('refuses %s', (source) => {
  expect(outcome(source, recorded.values)).toEqual({ error: true })
})

describe('stays within its limits', () => {
  const doubled = (first: string, next: string): string =>
    `{% set ns = namespace(x=${first}) %}{% for i in range(100) %}{% set ns.x = ${next} %}{% endfor %}`
  const cases = [
    {
      says: 'a loop that writes forever',
      source: '{% for i in range(100000) %}{{ "x" * 100 }}{% endfor %}',
      limit: 'output',
    },
    {
      says: 'loops in loops',
      source: '{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}',
      limit: 'time',
    },
    { says: 'a macro that calls itself', source: '{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}', limit: undefined },
    { says: 'a string that doubles', source: doubled("'ab'", 'ns.x ~ ns.x'), limit: 'output' },
    { says: 'a string that is added to itself', source: doubled("'ab'", 'ns.x + ns.x'), limit: 'output' },
    { says: 'a safe string that doubles', source: doubled("'ab' | safe", 'ns.x + ns.x'), limit: 'output' },
    { says: 'a string whose characters double', source: doubled("'a'", "ns.x.replace('a', 'aa')"), limit: 'output' },
    { says: 'a string that is put between itself', source: doubled("'a'", "ns.x.replace('', ns.x)"), limit: 'output' },
    { says: 'a string that is joined by itself', source: doubled("'ab'", 'ns.x | join(ns.x)'), limit: 'output' },
    { says: 'a list that doubles', source: doubled('[1]', 'ns.x + ns.x'), limit: 'output' },
    { says: 'a list of itself twice', source: `${doubled('[1]', '[ns.x, ns.x]')}{{ ns.x }}`, limit: 'output' },
    { says: 'and as JSON', source: `${doubled('[1]', '[ns.x, ns.x]')}{{ ns.x | tojson }}`, limit: 'output' },
    {
      says: 'two lists of themselves twice that are compared',
      source: `${doubled('[1]', '[ns.x, ns.x]')}{% set y = ns.x %}${doubled('[1]', '[ns.x, ns.x]')}{{ y == ns.x }}`,
      limit: undefined,
    },
  ]
  it.each(cases)('$says', ({ source, limit }) => {
    let thrown: unknown
    try {
      render(source, {})
    } catch (error) {
      thrown = error
    }
    expect(thrown).toBeInstanceOf(Error)
    if (limit) expect(thrown).toBeInstanceOf(TemplateLimitError)
    if (limit) expect((thrown as TemplateLimitError).limit).toBe(limit)
  })

  // Goal: nobody can do much with few statements. Each of these looks at all of a long text or list, fifty times.
  it.each([
    "'y' in text",
    "'y' not in text",
    'text[1:]',
    'text[::-1]',
    'text[0]',
    'text.strip()',
    'text | upper',
    'text | tojson',
    '1 in list',
    'list == other',
    '(list + list) | length',
  ])('%s counts as much work as it is', (expression) => {
    const variables = {
      text: 'x'.repeat(100_000),
      list: Array<Value>(20_000).fill(0),
      other: Array<Value>(20_000).fill(0),
    }
    const source = `{% for i in range(50) %}{% if ${expression} %}{% endif %}{% endfor %}`
    expect(render(source, variables, { ...roomy, outputMax: Infinity })).toBe('')
    expect(() => render(source, variables, { ...roomy, stepsMax: 10_000 })).toThrow(TemplateLimitError)
  })

  it('stops after its steps, so that a caller may move the work elsewhere', () => {
    expect(() => render('{% for i in range(500) %}x{% endfor %}', {}, { ...roomy, stepsMax: 100 })).toThrow(
      TemplateLimitError,
    )
  })
})

// Work that grows with the square of the text would be 10^10 steps, which is more than a test has the time for.
it('reads a long text that is no number once, and not again from every place in it', () => {
  const variables = { digits: `${'1'.repeat(150_000)}x`, spaced: `a${' '.repeat(150_000)}b` }
  expect(render('{{ digits | float }} {{ spaced | int }}', variables, roomy)).toBe('0.0 0')
})

it('finds the fields of a request by a text that is marked as safe', () => {
  const source = "{% set k = 'a' | safe %}{{ d.get(k) }} {{ d[k] }} {{ k in d }} {{ d.get(k ~ 'b') }}"
  expect(render(source, { d: { a: 1 } })).toBe('1 1 True None') // as Python renders it
})

it('joins lists up to a length', () => {
  const source = '{{ (lists | sum(start=[])) | length }}'
  const long = Array.from({ length: 40_000 }, () => 1)
  expect(render(source, { lists: [long, [2]] })).toBe('40001')
  expect(outcome(source, { lists: [long, long] })).toEqual({ error: true })
})

// As jinja2 3.1.6 renders them.
it.each([
  ['{{ [1, 2] * 2 }}{{ -1 * [1] }}{{ (1, 2) * true }}{{ true * "a" }}', '[1, 2, 1, 2][](1, 2)a'],
  ['{{ {"a": missing, "items": missing}.get("a") }}|{{ {"items": missing}["items"] }}', '|'],
  ['{% filter replace("a", x) %}a{% set x = "c" %}{% endfilter %}', 'c'],
  ['{% generation %}{{ kwargs }}{{ varargs }}{% endgeneration %}', '{}()'],
])('%s', (source, text) => {
  expect(render(source, { x: 'b' })).toBe(text)
})

it.each(['{{ dict(missing, a=1) }}', '{{ [0] * 600000 * 2 }}', '{% for x in y if y else [1] %}{% endfor %}'])(
  'refuses what jinja2 refuses, and what is too long: %s',
  (source) => {
    expect(outcome(source, {})).toEqual({ error: true })
  },
)
