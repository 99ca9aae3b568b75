/** Requests of `/v1/messages` at random. */
import type { Entries, Tree } from './json-tree.case.js'
import { object, oneOf, text } from './json-tree.case.js'
import { Values } from './engine-values.case.js'

export class Messages extends Values {
  request(): Entries {
    return [
      ['max_tokens', '9'],
      ['messages', this.many(1, 5, () => this.turn())],
      ...this.maybe(3, 'system', () =>
        this.random(2) > 0
          ? this.systemText()
          : this.many(0, 3, () => object({ type: text('text'), text: this.systemText() })),
      ),
      ...this.maybe(3, 'tools', () =>
        this.many(0, 3, () =>
          object({ name: text('f') }, [
            ...this.toolFields('input_schema'),
            ...this.maybe(8, 'defer_loading', () => this.switch()),
            ...this.maybe(10, 'type', () => text('custom')),
          ]),
        ),
      ),
      ...this.maybe(6, 'tool_choice', () =>
        object({ type: text(oneOf(['auto', 'any', 'none', 'tool'], this.random)), name: text('f') }),
      ),
      ...this.maybe(4, 'thinking', () =>
        oneOf(
          [
            object({ type: text('disabled') }),
            object({ type: text('adaptive') }),
            object({ type: text('enabled'), budget_tokens: '1024' }),
          ],
          this.random,
        ),
      ),
      ...this.maybe(6, 'output_config', () => object({ effort: this.effort() })),
      ...this.maybe(5, 'chat_template_kwargs', () => this.arguments()),
      ...this.maybe(15, 'metadata', () => object({ user_id: text('u') })),
      ...this.maybe(20, 'add_special_tokens', () => this.switch()),
      ...this.maybe(20, 'truncate_prompt_tokens', () => '3'),
    ]
  }

  protected turn(): Tree {
    const role = oneOf(['user', 'user', 'user', 'assistant', 'assistant', 'assistant', 'system'], this.random)
    if (this.random(3) === 0)
      return object({ role: text(role), content: role === 'system' ? this.systemText() : this.text() })
    return object({ role: text(role), content: this.many(0, 4, () => this.block(role)) })
  }

  protected systemText(): Tree {
    return this.random(8) > 0
      ? this.text()
      : text(`x-anthropic-billing-header: a=1${this.random(2) > 0 ? '\nmore' : ''}`)
  }

  protected block(role: string): Tree {
    const said = object(
      { type: text('text'), text: role === 'system' ? this.systemText() : this.text() },
      this.maybe(8, 'cache_control', () => object({ type: text('ephemeral') })),
    )
    const kind = this.random(8)
    if (this.random(50) === 0)
      return object({
        type: text(oneOf(['document', 'search_result', 'server_tool_use', 'image'], this.random)),
        source: object({ type: text('text'), data: text('a') }),
      })
    if (kind > 3) return said
    if (role === 'system')
      return this.random(3) > 0
        ? said
        : object({ type: text('tool_addition'), tool: object({ type: text('tool_reference'), name: text('f') }) })
    if (kind === 0 || (kind === 1 && role === 'user')) return this.result()
    if (kind === 1 && this.random(3) > 0)
      return object({ type: text('tool_use'), id: text('c1'), name: text('f'), input: this.fieldsOf(0) })
    if (kind === 2) return object({ type: text('thinking'), thinking: this.text(), signature: text('') })
    return oneOf(
      [
        object({ type: text('redacted_thinking'), data: text('x') }),
        object({ type: text('tool_reference'), tool_name: text('f') }),
        object({ type: text('tool_use'), id: text('c2'), name: text('g'), input: object({}) }),
      ],
      this.random,
    )
  }

  protected result(): Tree {
    const part = (): Tree =>
      this.random(5) > 0
        ? object({ type: text('text'), text: this.text() })
        : object({ type: text('tool_reference'), tool_name: text('f') })
    const content = this.maybe(1, 'content', () => (this.random(2) > 0 ? this.text() : this.many(0, 3, part)))
    return object({ type: text('tool_result'), tool_use_id: text('c1') }, [
      ...content.slice(this.random(8) === 0 ? 1 : 0),
      ...this.maybe(6, 'is_error', () => this.switch()),
    ])
  }
}
