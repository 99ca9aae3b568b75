/** Requests of `/v1/responses` at random. */
import type { Entries, Tree } from './json-tree.case.js'
import { names, object, oneOf, spell, text } from './json-tree.case.js'
import { Values } from './engine-values.case.js'

export class Responses extends Values {
  request(): Entries {
    return [
      ['input', this.random(8) === 0 ? this.text() : this.many(1, 6, () => this.item())],
      ...this.maybe(4, 'instructions', () => (this.random(6) === 0 ? 'null' : this.text())),
      ...this.maybe(3, 'tools', () => this.many(0, 3, () => this.responseTool())),
      ...this.maybe(6, 'tool_choice', () => this.choice((name) => object({ type: text('function'), name }))),
      ...this.maybe(4, 'reasoning', () =>
        object({}, [...this.maybe(1, 'effort', () => this.effort()), ...this.maybe(4, 'summary', () => text('auto'))]),
      ),
      ...this.maybe(5, 'chat_template_kwargs', () => this.arguments()),
      ...this.maybe(12, 'text', () =>
        object({
          format:
            this.random(2) > 0
              ? object({ type: text('text') })
              : object({ type: text('json_schema'), name: text('n'), schema: object({ type: text('object') }) }),
        }),
      ),
      ...this.maybe(12, 'truncation', () => text(this.random(2) > 0 ? 'auto' : 'disabled')),
      ...this.maybe(60, 'previous_response_id', () => text('resp_1')),
      ...this.maybe(20, 'store', () => this.switch()),
      ...this.maybe(20, 'metadata', () => object({ a: text('b') })),
      ...this.maybe(20, 'max_output_tokens', () => '5'),
      ...this.maybe(20, 'truncate_prompt_tokens', () => '3'),
      ...this.maybe(20, 'add_special_tokens', () => this.switch()),
    ]
  }

  protected item(): Tree {
    const status = this.maybe(3, 'status', () => text(oneOf(['completed', 'in_progress', 'incomplete'], this.random)))
    const callId = { call_id: text('c1') }
    switch (this.random(16)) {
      case 0:
      case 1:
        return object(
          {
            type: text('function_call'),
            ...callId,
            name: text('f'),
            arguments: text(this.random(8) > 0 ? spell(this.fieldsOf(0)) : '{'),
          },
          [...status, ...this.maybe(3, 'id', () => text('fc_1')), ...this.maybe(20, 'namespace', () => text('n'))],
        )
      case 2:
      case 3:
        return object(
          {
            type: text('function_call_output'),
            ...callId,
            output: this.random(4) > 0 ? this.text() : this.many(0, 3, () => this.said('input_text')),
          },
          [...status, ...this.maybe(3, 'id', () => text('fo_1'))],
        )
      case 4:
        return object(
          { type: text('custom_tool_call'), ...callId, name: text('f'), input: this.text() },
          this.maybe(3, 'id', () => text('ct_1')),
        )
      case 5:
        return object({ type: text('custom_tool_call_output'), ...callId, output: this.text() })
      case 6:
      case 7:
        return object(
          {
            type: text('reasoning'),
            summary: this.many(0, 2, () => object({ type: text('summary_text'), text: this.text() })),
          },
          [
            ...this.maybe(1, 'id', () => text('rs_1')).slice(this.random(6) === 0 ? 1 : 0),
            ...this.maybe(2, 'content', () =>
              this.many(0, 2, () => object({ type: text('reasoning_text'), text: this.text() })),
            ),
            ...this.maybe(20, 'encrypted_content', () => this.text()),
            ...status,
          ],
        )
      case 8:
      case 9:
        return object(
          {
            type: text('message'),
            id: text('msg_1'),
            role: text('assistant'),
            content: this.many(1, 2, () => object({ type: text('output_text'), text: this.text(), annotations: [] })),
            status: text('completed'),
          },
          this.random(3) > 0 ? [] : status,
        )
      case 10:
        return object({ role: text('assistant'), content: this.responseContent('output_text') }, status)
      case 11:
        return object(
          { type: text('message'), role: text('developer'), content: this.responseContent('input_text') },
          this.maybe(4, 'tools', () => this.many(1, 2, () => this.chatTool())),
        )
      case 12:
        return object({ role: text('system'), content: this.responseContent('input_text') }, this.named())
      case 13:
        return this.random(4) > 0
          ? object({ role: text('user'), content: this.responseContent('input_text') })
          : this.otherItem()
      default:
        return object({ role: text('user'), content: this.responseContent('input_text') }, [
          ...this.maybe(2, 'type', () => text('message')),
          ...this.maybe(6, 'status', () => text('completed')),
          ...this.named(),
        ])
    }
  }

  protected responseContent(type: string): Tree {
    return this.random(3) > 0 ? this.text() : this.many(0, 3, () => this.said(type))
  }

  protected said(type: string): Tree {
    if (this.random(40) === 0) return this.media()
    if (this.random(12) === 0) return object({ type: text('refusal'), refusal: this.text() })
    const more =
      type === 'output_text'
        ? [['annotations', []] as const]
        : this.maybe(12, oneOf(names, this.random), () => this.value(1))
    return object({ type: text(this.random(15) === 0 ? 'text' : type), text: this.text() }, more)
  }

  protected otherItem(): Tree {
    const items = [
      object({ type: text('item_reference'), id: text('msg_1') }),
      object({
        type: text('web_search_call'),
        id: text('ws_1'),
        status: text('completed'),
        action: object({ type: text('search'), query: this.text() }),
      }),
      object({ type: text('file_search_call'), id: text('fs_1'), status: text('completed'), queries: [this.text()] }),
      object({
        type: text('code_interpreter_call'),
        id: text('ci_1'),
        status: text('completed'),
        container_id: text('c'),
        code: this.text(),
        outputs: 'null',
      }),
      object({
        type: text('local_shell_call'),
        id: text('ls_1'),
        call_id: text('c1'),
        status: text('completed'),
        action: object({ type: text('exec'), command: ['"ls"'], env: object({}) }),
      }),
      object({
        type: text('mcp_call'),
        id: text('mc_1'),
        arguments: text('{}'),
        name: text('f'),
        server_label: text('s'),
      }),
      object({ type: text('compaction'), encrypted_content: this.text() }),
    ]
    return oneOf(items, this.random)
  }

  protected responseTool(): Tree {
    switch (this.random(8)) {
      case 0:
        return object({ type: text('custom'), name: text('f') }, [
          ...this.maybe(2, 'description', () => this.text()),
          ...this.maybe(3, 'format', () => object({ type: text('text') })),
        ])
      case 1:
        return oneOf(
          [
            object({ type: text('web_search') }),
            object({ type: text('code_interpreter'), container: object({ type: text('auto') }) }),
            object({
              type: text('namespace'),
              name: text('n'),
              description: text('d'),
              tools: [object({ type: text('function'), name: text('f') })],
            }),
          ],
          this.random,
        )
      default:
        return object({ type: text('function'), name: text('f') }, [
          ...this.toolFields('parameters'),
          ...this.maybe(8, 'defer_loading', () => this.switch()),
        ])
    }
  }
}
