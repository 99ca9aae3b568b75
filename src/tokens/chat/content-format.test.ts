import { expect, it } from 'vitest'
import { parseTemplate } from '../template/parse.js'
import { detectContentFormat } from './content-format.js'

it.each([
  { template: '{% for m in messages %}{{ m.content }}{% endfor %}', format: 'string' },
  {
    template: "{% for m in messages %}{% for p in m['content'] %}{{ p.text }}{% endfor %}{% endfor %}",
    format: 'openai',
  },
  {
    template: '{% for m in messages %}{% for p in m.content if p.type == "text" %}{{ p.text }}{% endfor %}{% endfor %}',
    format: 'openai',
  },
  {
    template: '{% for m in messages %}{% set c = m.content %}{% for p in c %}{{ p.text }}{% endfor %}{% endfor %}',
    format: 'openai',
  },
  {
    template:
      '{% for m in messages %}{% if m.content is string %}{{ m.content }}{% else %}{% for p in m.content | list %}{{ p }}{% endfor %}{% endif %}{% endfor %}',
    format: 'openai',
  },
  { template: '{% for m in messages %}{% for t in m.tool_calls %}{{ t }}{% endfor %}{% endfor %}', format: 'string' },
])('$template is $format', ({ template, format }) => {
  expect(detectContentFormat(parseTemplate(template))).toBe(format)
})
