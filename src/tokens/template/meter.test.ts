// Goal: nothing that a template does in one step takes long without a look at the clock: neither printing nor sorting nor searching. Issue 7.
// Method: every look takes a millisecond by this clock, and there is one to spare. Without a look, or without a word of what comes, nothing ends.
// Steps do not look here: several of them in one line would end it whatever happens inside of each.
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { parseTemplate } from './parse.js'
import { Run } from './run.js'
import { Template } from './template.js'
import type { Value } from './values.js'

const count = 1 << 16
const list = Array.from({ length: count }, (_, index) => `item ${index % 1000}`)
const wide = Object.fromEntries(list.map((_, index) => [`key ${index}`, index]))
/** Of one list twice, and so on: small in memory, and without end to whoever walks over it. */
const doubled = (): Value => {
  let nested: Value = [1]
  for (let level = 0; level < 40; level++) nested = [nested, nested]
  return nested
}
const values: Readonly<Record<string, Value>> = {
  list,
  lists: list.map((item) => [item]),
  wide,
  nested: doubled(),
  twin: doubled(),
  text: 'a word '.repeat(count),
  spaces: ' '.repeat(4 * count),
  marks: `${'é\u0000"'.repeat(count)}`,
  emoji: '👍'.repeat(count),
  long: 'a'.repeat(count),
  nearly: `${'a'.repeat(count - 2)}b`,
  other: 'a word '.repeat(count),
  numbers: list.map((_, index) => index),
}
const pairs = '{% set ns = namespace(it=(1, 1)) %}{% for _ in range(40) %}{% set ns.it = (ns.it, ns.it) %}{% endfor %}'

function render(source: string, deadlineMs: number): string {
  let looks = 0
  const limits = { stepsMax: Infinity, outputMax: 1 << 24, deadlineMs }
  return new Template(parseTemplate(source)).render(values, { limits, now: () => looks++, date: () => new Date(0) })
}

describe('the clock is looked at, or what comes is foreseen, while a template', () => {
  beforeEach(() => void vi.spyOn(Run.prototype, 'step').mockReturnValue())
  afterEach(() => void vi.restoreAllMocks())

  it.each([
    '{{ list }}',
    '{{ list | string }}',
    '{{ list | tojson }}',
    '{{ wide | tojson }}',
    '{{ wide | tojson(indent=2, sort_keys=true) }}',
    '{{ nested }}',
    '{{ nested | tojson }}',
    '{{ [marks] }}',
    '{{ marks | tojson }}',
    '{{ marks | tojson(ensure_ascii=true) }}',
    "{{ '%r' % marks }}",
    "{{ '%s' | format(list) }}",
    '{{ list ~ 1 }}',
    '{{ nested == twin }}',
    '{{ nested < twin }}',
    '{{ nested in [twin] }}',
    '{{ lists == (lists | list) }}',
    '{{ lists < (lists | list) }}',
    '{{ list | sort | first }}',
    '{{ list | max }}',
    '{{ list | unique | first }}',
    '{{ lists | map("first") | first }}',
    '{{ list | select("eq", 1) | first }}',
    '{{ lists | map(attribute="0") | first }}',
    '{{ list | join(",") }}',
    '{{ wide | dictsort | first }}',
    '{{ wide.items() | first }}',
    '{{ wide | items | first }}',
    '{{ range(100000) | first }}',
    '{% for x in list if x == 1 %}{% endfor %}',
    '{% for x in emoji %}{% break %}{% endfor %}',
    '{{ spaces.strip() }}',
    '{{ spaces | trim }}',
    '{{ text | upper }}',
    '{{ text.lower() }}',
    '{{ text | title }}',
    '{{ text.title() }}',
    '{{ text | capitalize }}',
    '{{ text | wordcount }}',
    '{{ text | reverse | first }}',
    '{{ text | escape }}',
    '{{ text | indent }}',
    '{{ text.split() | first }}',
    '{{ text.rsplit() | first }}',
    '{{ text.split(" ") | first }}',
    '{{ text.splitlines() | first }}',
    '{{ text.replace(" ", "") }}',
    '{{ text | replace(" ", "") }}',
    '{{ text.count(" ") }}',
    '{{ text.isupper() }}',
    '{{ long.isalpha() }}',
    '{{ text.format() }}',
    '{{ emoji | length }}',
    '{{ emoji[0] }}',
    '{{ emoji[:2] }}',
    '{{ long[::2] | length }}',
    '{{ list[::-1] | length }}',
    '{{ (long[1:] ~ "b") in long }}',
    '{{ "x" in text }}',
    '{{ nearly in long }}',
    '{{ text.find("x") }}',
    '{{ long.find(nearly) }}',
    '{{ long.rfind(nearly) }}',
    '{{ long.index("a" ~ nearly) }}',
    '{{ long.partition(nearly) | first }}',
    '{{ long.rpartition(nearly) | first }}',
    '{{ long.split(nearly) | first }}',
    '{{ long.count(nearly) }}',
    '{{ long.replace(nearly, "") }}',
    '{{ text == other }}',
    '{% if wide %}{% endif %}',
    '{{ wide | length }}',
    '{{ list.count(1) }}',
    '{{ list.index(1) }}',
    '{{ numbers | sum }}',
    '{{ "a".strip(text) }}',
    `${pairs}{{ ns.it in {} }}`,
    '{{ strftime_now(text) }}',
  ])('renders %s', (source) => {
    expect(() => render(source, 1)).toThrow('limit of time')
  })
})

it.each(['{{ ("{0}" * 20000).format(long) }}', '{{ list[:5000] | tojson(separators=(long, ":")) }}'])(
  'what would be far too long is not made: %s',
  (source) => {
    expect(() => render(source, 1e9)).toThrow('limit of output')
  },
)

it.each(['{{ list[:100] | tojson }}{{ list[:100] }}', '{{ "a b".split() | join(",") | upper }}'])(
  'what is short takes no look at all: %s',
  (source) => {
    expect(() => render(source, 0)).not.toThrow()
  },
)

it('prints long texts as it prints short ones, wherever it looks', () => {
  const parts = ['é', '"', "'", '\\', '\n', '\u0000', '👍', '\ud83d', 'a'.repeat(97)]
  const text = Array.from({ length: 4000 }, (_, index) => parts[(index * 7919) % parts.length]).join('')
  const limits = { stepsMax: Infinity, outputMax: 1 << 24, deadlineMs: 1e9 }
  const options = { limits, now: () => 0, date: () => new Date(0) }
  for (const source of ['{{ x | tojson }}', '{{ x | tojson(ensure_ascii=true) }}', "{{ '%r' % x }}"]) {
    const template = new Template(parseTemplate(source))
    const spelled = (x: Value): string => template.render({ x }, options).slice(1, -1)
    const chars = Array.from(`'"${text}`)
    // The mark around a text depends on the whole of it: both are in every part.
    const wanted = chars.map((char) => spelled(`'"${char}`).slice(spelled(`'"`).length)).join('')
    expect(spelled(`'"${chars.join('')}`)).toBe(spelled(`'"`) + wanted)
  }
})
