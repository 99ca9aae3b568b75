/** Requests of `/v1/chat/completions` and `/v1/completions` at random. */
import type { Entries, Tree } from './json-tree.case.js'
import { names, object, oneOf, spell, text } from './json-tree.case.js'
import { Values } from './engine-values.case.js'

export class Chats extends Values {
  request(): Entries {
    return [
      ['messages', this.many(1, 5, () => this.message())],
      ...this.maybe(3, 'tools', () => this.many(1, 3, () => this.chatTool())),
      ...this.maybe(6, 'tool_choice', () =>
        this.choice((name) => object({ type: text('function'), function: object({ name }) })),
      ),
      ...this.maybe(5, 'reasoning_effort', () => this.effort()),
      ...this.maybe(4, 'chat_template_kwargs', () => this.arguments()),
      ...this.ends(),
      ...this.maybe(10, 'add_special_tokens', () => this.switch()),
      ...this.maybe(8, 'documents', () => this.many(0, 2, () => object({ title: this.text(), text: this.text() }))),
      ...this.cut(),
      ...this.maybe(12, 'response_format', () => this.format()),
      ...this.maybe(20, 'structured_outputs', () => object({ choice: ['"a"', '"b"'] })),
      ...this.settings(),
    ]
  }

  protected ends(): Entries {
    const ways: readonly (() => Entries)[] = [
      () => [
        ['continue_final_message', 'true'],
        ['add_generation_prompt', 'false'],
      ],
      () => [['add_generation_prompt', this.switch()]],
      () => [['continue_final_message', this.switch()]],
    ]
    return ways[this.random(10)]?.() ?? []
  }

  protected message(): Tree {
    switch (this.random(10)) {
      case 0:
        return object({ role: text('system'), content: this.content() }, this.named())
      case 1:
        return object(
          { role: text('developer'), content: this.content() },
          this.maybe(3, 'tools', () => this.many(1, 2, () => this.chatTool())),
        )
      case 2:
      case 3:
        return object({ role: text('tool'), tool_call_id: text('c1'), content: this.content() }, this.named())
      case 4:
      case 5:
      case 6:
        return object({ role: text('assistant') }, [
          ...this.maybe(1, 'content', () => (this.random(5) === 0 ? 'null' : this.content())).slice(
            this.random(8) === 0 ? 1 : 0,
          ),
          ...this.maybe(4, 'reasoning_content', () => this.text()),
          ...this.maybe(5, 'reasoning', () => this.text()),
          ...this.maybe(2, 'tool_calls', () => this.many(0, 3, () => this.call())),
          ...this.maybe(20, 'refusal', () => this.text()),
          ...this.maybe(20, 'function_call', () => object({ name: text('f'), arguments: text('{}') })),
          ...this.named(),
        ])
      default:
        return object({ role: text(this.random(40) === 0 ? 'critic' : 'user'), content: this.content() }, this.named())
    }
  }

  protected content(): Tree {
    return this.random(3) > 0 ? this.text() : this.many(0, 4, () => this.part())
  }

  protected part(): Tree {
    const more = this.maybe(8, oneOf(names, this.random), () => this.value(1))
    switch (this.random(14)) {
      case 0:
        return this.text()
      case 1:
        return object({ type: text('input_text'), text: this.text() }, more)
      case 2:
        return object({ type: text('output_text'), text: this.text() }, more)
      case 3:
        return object({ type: text('refusal'), refusal: this.text() }, more)
      case 4:
        return object({ type: text('thinking'), thinking: this.text() }, more)
      case 5:
        return object({ type: text('tool_reference'), name: this.text() }, more)
      case 6:
        return this.random(4) > 0 ? object({ type: text('text'), text: 'null' }) : this.media()
      default:
        return object({ type: text('text'), text: this.text() }, more)
    }
  }

  protected call(): Tree {
    const written =
      this.random(6) > 0
        ? text(spell(this.fieldsOf(0)))
        : oneOf([this.fieldsOf(0), text(''), text('{"a": 1'), text('[1]'), text('{"a": NaN}'), 'null'], this.random)
    const it = object(
      { name: text(oneOf(['f', 'get_weather', 'é', '__proto__'], this.random)), arguments: written },
      this.maybe(15, oneOf(names, this.random), () => this.value(1)),
    )
    return object({}, [
      ...(this.random(8) === 0 ? [] : [['id', text('c1')] as const]),
      ...(this.random(15) === 0 ? [] : [['type', text('function')] as const]),
      ['function', it],
      ...this.maybe(15, oneOf(names, this.random), () => this.value(1)),
    ])
  }
}

export class Completions extends Values {
  request(): Entries {
    const ids = (): Tree =>
      this.many(1, 6, () =>
        this.random(12) === 0
          ? oneOf(['1.0', '0', '31999', '99999999', '-1', 'true', '"5"'], this.random)
          : String(this.random(30_000)),
      )
    const prompts = [
      () => this.text(),
      () => this.text(),
      () => this.text(),
      () => this.many(1, 3, () => this.text()),
      ids,
      () => this.many(1, 3, ids),
      () => [this.text(), ids()],
    ]
    return [
      ['prompt', oneOf(prompts, this.random)()],
      ...this.maybe(5, 'add_special_tokens', () => this.switch()),
      ...this.cut(2),
      ...this.maybe(20, 'suffix', () => (this.random(2) > 0 ? 'null' : this.text())),
      ...this.maybe(10, 'echo', () => this.switch()),
      ...this.maybe(12, 'response_format', () => this.format()),
      ...this.settings(),
    ]
  }
}
