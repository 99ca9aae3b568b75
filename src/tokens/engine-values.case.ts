/** Values at random that requests of every route are made of. */
import type { Entries, Random, Tree } from './json-tree.case.js'
import { Fields, names, object, oneOf, text } from './json-tree.case.js'

// biome-ignore format: a list of texts
const words = ['a', 'the ', 'Hello', ' world', '\n', '\n\n', ' ', '  ', '\t', '', 'é', 'e\u0301', '東京', '😀', '\u200b', '\u00a0', '12', '1.0', '"', "'", '\\', '{', '}', '{{ x }}', '</s>', '<s>', '<|im_start|>', '<|im_end|>', '<think>', '</think>', '<think>\nhm\n</think>\n\n', '<tool_response>', '</tool_response>', '<｜User｜>', '<｜end▁of▁sentence｜>', '<|eot_id|>', '▁', '\u0000', 'CONTINUE_FINAL_MESSAGE_TAG ', '<', '&', '\u2028']
// biome-ignore format: a list of numbers
const numbers = ['0', '1', '-1', '7', '1.0', '-0', '-0.0', '1e3', '1E3', '1.5', '0.1', '1e15', '1e16', '1.0e16', '9999999999999998.0', '1e22', '1e-4', '1e-5', '0.00001', '1.25e-7', '5e-324', '123456789012345680.0', '9007199254740993', '18446744073709551616', '-123456789012345678901234567890', '1.7976931348623157e308', '1e400', '-1E400', '3.0000000000000004']
// biome-ignore format: a list of names
const templateNames = ['foo', 'bar', 'enable_thinking', 'thinking', 'reasoning_effort', 'add_generation_prompt', 'continue_final_message', 'tools', 'documents', 'n1', 'n65', '__proto__', 'toString', 'constructor', 'hasOwnProperty', 'valueOf', 'tool_choice', 'response_format', 'truncation', 'bos_token', 'messages', 'tokenize', 'template', 'return_dict', 'max_length', '0', 'strftime_now']
const efforts = ['none', 'minimal', 'low', 'medium', 'high', 'xhigh', 'max']

export abstract class Values {
  protected readonly random: Random

  constructor(random: Random) {
    this.random = random
  }

  /** All but its model. */
  abstract request(): Entries

  protected cut(usual = 10): Entries {
    return [
      ...this.maybe(usual, 'truncate_prompt_tokens', () =>
        oneOf(
          ['1', '2', '3', '5', '10', '40', '-1', '4.0', '"4"', '" +6.0 "', '0', 'null', 'true', '100000'],
          this.random,
        ),
      ),
      ...this.maybe(usual * 2, 'truncation_side', () => oneOf(['"left"', '"right"', 'null', '"both"'], this.random)),
    ]
  }

  protected settings(): Entries {
    return [
      ...this.maybe(8, 'max_tokens', () => '5'),
      ...this.maybe(12, 'temperature', () => '0.0'),
      ...this.maybe(12, 'stream', () => this.switch()),
      ...this.maybe(20, 'seed', () => '7'),
      ...this.maybe(20, 'stop', () => ['"x"']),
      ...this.maybe(20, oneOf(names, this.random), () => this.value(1)),
    ]
  }

  protected format(): Tree {
    return oneOf(
      [
        object({ type: text('text') }),
        object({ type: text('json_object') }),
        object({
          type: text('json_schema'),
          json_schema: object({ name: text('n'), schema: object({ type: text('object') }) }),
        }),
      ],
      this.random,
    )
  }

  protected choice(named: (name: Tree) => Tree): Tree {
    return this.random(3) > 0
      ? text(oneOf(['auto', 'none', 'required'], this.random))
      : this.random(4) === 0
        ? 'null'
        : named(text('f'))
  }

  protected effort(): Tree {
    return this.random(12) === 0 ? 'null' : text(oneOf(efforts, this.random))
  }

  protected switch(): Tree {
    return this.random(3) > 0
      ? oneOf(['true', 'false'], this.random)
      : oneOf(['"yes"', '"off"', '1', '0', '1.0', '"True"', 'null'], this.random)
  }

  /** Of a template. */
  protected arguments(): Tree {
    const own = this.entries(
      4,
      () => oneOf(templateNames, this.random),
      () => this.value(1),
    )
    if (this.random(5) > 0) return new Fields(own)
    const others = Array.from({ length: 60 + this.random(80) }, (_, at) => [`n${at}`, this.number()] as const)
    return new Fields(this.random(2) > 0 ? [...own, ...others] : [...others, ...own])
  }

  protected value(depth: number): Tree {
    switch (this.random(depth > 3 ? 4 : 7)) {
      case 0:
        return oneOf(['null', 'true', 'false', '"auto"'], this.random)
      case 1:
      case 2:
        return this.number()
      case 3:
        return this.text()
      case 4:
        return this.many(0, 3, () => this.value(depth + 1))
      default:
        return this.fieldsOf(depth + 1)
    }
  }

  /** A few, or more than an object has a shape for. */
  protected fieldsOf(depth: number): Tree {
    if (this.random(30) > 0)
      return new Fields(
        this.entries(
          4,
          () => oneOf(names, this.random),
          () => this.value(depth + 1),
        ),
      )
    const many = Array.from(
      { length: 64 + this.random(30) },
      (_, at) => [`${oneOf(names, this.random)}${at}`, this.number()] as const,
    )
    return new Fields([...many, [oneOf(names, this.random), this.number()]])
  }

  protected entries(most: number, name: () => string, value: () => Tree): Entries {
    const made = new Map(Array.from({ length: this.random(most) }, () => [name(), value()] as const))
    return [...made]
  }

  protected number(): Tree {
    return oneOf(numbers, this.random)
  }

  protected text(): Tree {
    const count = this.random(6) === 0 ? 0 : 1 + this.random(5)
    return text(Array.from({ length: count }, () => oneOf(words, this.random)).join(''))
  }

  protected many(least: number, most: number, make: () => Tree): readonly Tree[] {
    return Array.from({ length: least + this.random(most - least + 1) }, make)
  }

  /** In one of so many requests. */
  protected maybe(often: number, name: string, make: () => Tree): Entries {
    return this.random(often) === 0 ? [[name, make()]] : []
  }

  protected named(): Entries {
    return [
      ...this.maybe(10, 'name', () => this.text()),
      ...this.maybe(25, 'task', () => this.text()),
      ...this.maybe(15, oneOf(names, this.random), () => this.value(1)),
    ]
  }

  protected media(): Tree {
    const url = object({ url: text('data:image/png;base64,AA==') })
    const kinds = [
      object({ type: text('image_url'), image_url: url }),
      object({ type: text('input_image'), image_url: text('data:,') }),
      object({ type: text('input_audio'), input_audio: object({ data: text('AA=='), format: text('wav') }) }),
      object({ type: text('video_url'), video_url: url }),
      object({ type: text('file'), file: object({ file_id: text('f') }) }),
    ]
    return oneOf(kinds, this.random)
  }

  protected toolFields(schema: string): Entries {
    return [
      ...this.maybe(2, 'description', () => (this.random(6) === 0 ? 'null' : this.text())),
      ...this.maybe(1, schema, () => this.schema()).slice(this.random(10) === 0 ? 1 : 0),
      ...this.maybe(5, 'strict', () => this.switch()),
      ...this.maybe(12, oneOf(names, this.random), () => this.value(1)),
    ]
  }

  protected schema(): Tree {
    if (this.random(3) === 0) return this.fieldsOf(0)
    return object({
      type: text('object'),
      properties: this.fieldsOf(1),
      required: this.many(0, 2, () => this.text()),
    })
  }

  protected chatTool(): Tree {
    const called = object({ name: text('f') }, [
      ...this.toolFields('parameters'),
      ...this.maybe(8, 'defer_loading', () => this.switch()),
    ])
    return object({ type: text('function'), function: called }, [
      ...this.maybe(8, 'defer_loading', () => this.switch()),
      ...this.maybe(10, oneOf(names, this.random), () => this.value(1)),
    ])
  }
}
