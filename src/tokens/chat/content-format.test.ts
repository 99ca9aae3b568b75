// Goal: engines and we take a template for the same, also where it walks over content in a way that an engine does not see.
// Method: what the code of vLLM 0.32.0 and of SGLang 0.5.23 says of each; of 258 published templates none differed.
import { expect, it } from 'vitest'
import { parseTemplate } from '../template/parse.js'
import { detectContentFormats } from './content-format.js'

const cases: readonly (readonly [template: string, vllm: string, sglang: string])[] = [
  ['{% for m in messages %}{{ m.content }}{% endfor %}', 'string', 'string'],
  ["{% for m in messages %}{% for p in m['content'] %}{{ p.text }}{% endfor %}{% endfor %}", 'openai', 'openai'],
  [
    "{% for message in messages %}{% for p in message.content if p.type == 'text' %}{{ p.text }}{% endfor %}{% endfor %}",
    'openai',
    'openai',
  ],
  ['{% for turn in messages %}{% for p in turn.content %}{{ p.text }}{% endfor %}{% endfor %}', 'openai', 'string'],
  [
    '{% for m in messages %}{% set c = m.content %}{% for p in c %}{{ p.text }}{% endfor %}{% endfor %}',
    'string',
    'string',
  ],
  [
    '{% for m in messages %}{% set content = m.content %}{% for p in content %}{{ p.text }}{% endfor %}{% endfor %}',
    'openai',
    'string',
  ],
  [
    '{% for m in messages %}{% if m.content is string %}{{ m.content }}{% else %}{% for p in m.content | list %}{{ p }}{% endfor %}{% endif %}{% endfor %}',
    'openai',
    'openai',
  ],
  ['{% for m in messages %}{% for p in m.content[1:] %}{{ p }}{% endfor %}{% endfor %}', 'openai', 'openai'],
  ["{% for m in messages %}{% for p in m.get('content') %}{{ p }}{% endfor %}{% endfor %}", 'string', 'string'],
  ['{% for m in messages %}{% for t in m.tool_calls %}{{ t }}{% endfor %}{% endfor %}', 'string', 'string'],
  [
    '{% for p in messages[0].content %}{{ p.text }}{% endfor %}{% for m in messages %}{{ m.content }}{% endfor %}',
    'string',
    'string',
  ],
  [
    '{% set rest = messages[1:] %}{% for it in rest %}{% for p in it.content %}{{ p }}{% endfor %}{% endfor %}',
    'openai',
    'string',
  ],
  [
    '{% set rest = messages[1:] %}{% set more = rest | list %}{% for it in more %}{% for p in it.content %}{{ p }}{% endfor %}{% endfor %}',
    'openai',
    'string',
  ],
  [
    '{% set rest = others %}{% for it in rest %}{% for p in it.content %}{{ p }}{% endfor %}{% endfor %}{% for m in messages %}{{ m.content }}{% endfor %}',
    'string',
    'string',
  ],
  [
    '{% set ns = namespace(all=[]) %}{% set ns.all = messages %}{% for m in messages %}{% for p in m.content %}{{ p }}{% endfor %}{% endfor %}',
    'string',
    'openai',
  ],
  [
    '{% macro show(content) %}{% for p in content %}{{ p.text }}{% endfor %}{% endmacro %}{% for m in messages %}{{ show(m.content) }}{% endfor %}',
    'openai',
    'string',
  ],
  [
    '{% macro show(parts) %}{% for p in parts %}{{ p.text }}{% endfor %}{% endmacro %}{% for m in messages %}{{ show(m.content) }}{% endfor %}',
    'openai',
    'string',
  ],
  [
    "{% macro show(parts, sep='') %}{% for p in parts %}{{ p.text }}{% endfor %}{% endmacro %}{% for m in messages %}{{ show(sep=' ', parts=m.content) }}{% endfor %}",
    'openai',
    'string',
  ],
  [
    '{% macro show(sep, parts) %}{% for p in parts %}{{ p.text }}{% endfor %}{% endmacro %}{% for m in messages %}{{ show(m.content, []) }}{% endfor %}',
    'string',
    'string',
  ],
  [
    '{% macro show(content) %}{% for p in content %}{{ p.text }}{% endfor %}{% endmacro %}{% for m in messages %}{{ show(m.text) }}{{ m.content }}{% endfor %}',
    'string',
    'string',
  ],
  [
    '{% macro show(content) %}{% for p in content | list %}{{ p.text }}{% endfor %}{% endmacro %}{% for m in messages %}{{ show(m.content) }}{% endfor %}',
    'string',
    'string',
  ],
  [
    '{% macro show(content) %}{% for p in content %}{{ p.text }}{% endfor %}{% endmacro %}{% for m in messages %}{% set content = show(m.content) | trim %}{{ content }}{% endfor %}',
    'openai',
    'string',
  ],
  [
    '{% macro show(content) %}{% for p in content %}{{ p.text }}{% endfor %}{% endmacro %}{% for m in messages %}{% call show(m.content) %}{% endcall %}{% endfor %}',
    'openai',
    'string',
  ],
  ['{% for m in messages %}{{ m.content }}{% endfor %}{# vision #}', 'string', 'openai'],
  ["{% for m in messages %}{{ m.content }}{% if m.type == 'image' %}{% endif %}{% endfor %}", 'string', 'openai'],
  ['{% for i, m in messages | items %}{% for p in m.content %}{{ p }}{% endfor %}{% endfor %}', 'string', 'openai'],
  [
    "{% for m in messages if m.role != 'system' %}{% for p in m.content %}{{ p }}{% endfor %}{% endfor %}",
    'openai',
    'openai',
  ],
  [
    '{% for m in (messages if tools else messages[1:]) %}{% for p in m.content %}{{ p }}{% endfor %}{% endfor %}',
    'string',
    'openai',
  ],
  [
    '{% for item in content %}{{ item }}{% endfor %}{% for m in messages %}{{ m.content }}{% endfor %}',
    'openai',
    'string',
  ],
  ['{% for m in messages %}{% for p in (m.content or []) %}{{ p }}{% endfor %}{% endfor %}', 'string', 'string'],
  ['{% for m in messages | reverse %}{% for p in m.content %}{{ p }}{% endfor %}{% endfor %}', 'openai', 'openai'],
  [
    '{% for m in messages %}{% set parts = m.content if m.content is iterable else [m.content] %}{% for p in parts %}{{ p }}{% endfor %}{% endfor %}',
    'string',
    'string',
  ],
]

it.each(cases)('%s is %s to vLLM and %s to SGLang', (template, vllm, sglang) => {
  expect(detectContentFormats(template, parseTemplate(template))).toEqual({ vllm, sglang, trtllm: vllm })
})
