/** The chat templates of one model: which one a request takes, and what every rendering of it is given. */
import { merged } from '../../core/protocol/index.js'
import type { Node } from '../template/node.js'
import type { RenderedPrefixes, Rendering } from '../template/rendered-prefixes.js'
import type { RenderOptions } from '../template/template.js'
import type { Scope } from '../template/run.js'
import { strip } from '../template/methods.js'
import { newConstants, Template } from '../template/template.js'
import { indexIn } from '../template/texts.js'
import type { Value } from '../template/values.js'
import type { ContentFormats } from './content-format.js'
import type { TemplateHabits } from './converted.js'
import type { Dialect } from './request.js'
import { asRecord, asValue } from './request.js'
import { habitsOf } from './template-habits.js'
import { detectContentFormats } from './content-format.js'

export interface ParsedTemplate {
  readonly name: string
  readonly source: string
  readonly parsed: Node
}

/** The template that the tokenizer has for tools, beside that of a processor. No file can be named so. */
export const tokenizersName = '/tokenizer'

export class ChatTemplates {
  readonly #ready: ReadonlyMap<string, ChosenTemplate>
  readonly #first: ChosenTemplate | undefined

  /** `specials` are `bos_token` and its kin: a template sees those that the tokenizer has. */
  constructor(templates: readonly ParsedTemplate[], specials: Readonly<Record<string, string>>) {
    const constants = newConstants(specials)
    const habits = habitsOf(templates, constants)
    this.#ready = new Map(templates.map((it) => [it.name, ready(it, constants, habits)]))
    this.#first = this.#ready.values().next().value
  }

  /**
   * transformers: the template named `tool_use` where there are tools and it exists, else the default. Where a processor has one of its own,
   * vLLM (0.32.0) takes that for chats without tools and the tokenizer's for those with. SGLang (0.5.23) takes it for all, and of named ones
   * the first, whatever its name is.
   */
  choose(hasTools: boolean, dialect?: Dialect): ChosenTemplate | undefined {
    if (dialect === 'sglang') return this.#first
    const forTools = dialect === 'vllm' ? this.#ready.get(tokenizersName) : undefined
    return (hasTools ? (forTools ?? this.#ready.get('tool_use')) : undefined) ?? this.#ready.get('default')
  }
}

export interface ChosenTemplate {
  readonly template: Template
  readonly constants: Scope
  /** How each engine hands it the content of messages. */
  readonly formats: ContentFormats
  readonly knowsDeveloper: boolean
  /** transformers continues no message whose template does not name its content. */
  readonly namesContent: boolean
  /** Of all templates of the model. */
  readonly habits: TemplateHabits
}

function ready({ source, parsed }: ParsedTemplate, constants: Scope, habits: TemplateHabits): ChosenTemplate {
  return {
    template: new Template(parsed),
    constants,
    formats: detectContentFormats(source, parsed),
    knowsDeveloper: /(['"])developer\1/.test(source),
    namesContent: source.includes('content'),
    habits,
  }
}

const tag = 'CONTINUE_FINAL_MESSAGE_TAG '

export interface RenderInput {
  readonly messages: readonly Readonly<Record<string, Value>>[]
  readonly tools: Value
  readonly documents: Value
  readonly addGenerationPrompt: boolean
  readonly continueFinalMessage: boolean
  readonly kwargs: Readonly<Record<string, Value>>
}

/** Renders as `apply_chat_template` does. Throws what the template throws. */
export function renderChat(chosen: ChosenTemplate, input: RenderInput, options: RenderOptions): string {
  const { variables, final } = variablesOf(chosen, input)
  const text = chosen.template.render(variables, options, chosen.constants)
  return final === undefined ? text : cutAtTag(text, final)
}

/** The same, beginning with what an earlier rendering has in common with this one. */
export function continueChat<Text extends { readonly bytes: Uint8Array }>(
  chosen: ChosenTemplate,
  input: RenderInput,
  options: RenderOptions,
  prefixes: RenderedPrefixes<Text>,
): Rendering<Text> {
  // Its text ends inside what would be kept of it.
  if (input.continueFinalMessage) return { head: undefined, tail: renderChat(chosen, input, options), keep: undefined }
  return prefixes.render(chosen.template, variablesOf(chosen, input).variables, options, chosen.constants)
}

function variablesOf(
  { namesContent }: ChosenTemplate,
  input: RenderInput,
): {
  readonly variables: Readonly<Record<string, Value>>
  readonly final: string | undefined
} {
  if (input.continueFinalMessage && !namesContent) throw new Error('the template does not name the content of messages')
  const { messages, final } = input.continueFinalMessage
    ? markFinal(input.messages)
    : { messages: input.messages, final: undefined }
  const { kwargs, tools, documents, addGenerationPrompt } = input
  return {
    variables: merged(kwargs, { messages, tools, documents, add_generation_prompt: addGenerationPrompt }),
    final,
  }
}

/** transformers appends a mark to the last message and cuts the text there, so that what follows the message is left out. */
function markFinal(messages: RenderInput['messages']): { messages: RenderInput['messages']; final: string } {
  const last = messages.at(-1)
  const content = last?.['content']
  if (typeof content === 'string') {
    return { messages: [...messages.slice(0, -1), merged(last!, { content: content + tag })], final: content }
  }
  if (Array.isArray(content)) {
    const parts = content as readonly Value[]
    const at = parts.findLastIndex((part) => typeof asRecord(part)?.['text'] === 'string')
    const part = asRecord(parts[at])
    if (part) {
      const final = part['text'] as string
      const marked = parts.with(at, asValue(merged(part, { text: final + tag })))
      return { messages: [...messages.slice(0, -1), merged(last!, { content: marked })], final }
    }
  }
  throw new Error('continue_final_message wants a last message with text')
}

/** Nearly always right before the mark. */
function isShown(final: string, before: string, text: string): boolean {
  return strip(before, null, false, true).endsWith(final) || indexIn(text, final) >= 0
}

function cutAtTag(text: string, final: string): string {
  const at = text.lastIndexOf(tag.trim())
  const before = text.slice(0, Math.max(0, at))
  if (at < 0 || !isShown(strip(final, null, true, true), before, text))
    throw new Error('the final message does not appear in the rendered chat')
  return text.startsWith(tag, at) ? before : strip(before, null, false, true)
}
