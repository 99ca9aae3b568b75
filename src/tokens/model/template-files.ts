/**
 * The chat templates of a model's folder. A tokenizer has its own and a processor, which models with media have, another; engines take
 * one or the other (`chat-template.ts`). Follows transformers 5.19.0 as vLLM 0.32.0 and SGLang 0.5.23 ask it.
 */
import { existsSync, readdirSync } from 'node:fs'
import { join } from 'node:path'
import type { ParsedTemplate } from '../chat/chat-template.js'
import { tokenizersName } from '../chat/chat-template.js'
import { parseTemplate } from '../template/parse.js'
import type { TokenizerConfigFile } from '../vocabulary/tokenizer-file.js'
import { readBytes, readJson } from './read-file.js'

const templateBytesMax = 4 << 20

/** `names`: of the model's files. The first of the templates is SGLang's. */
export function readTemplates(
  folder: string,
  names: readonly string[],
  config: TokenizerConfigFile,
): { readonly templates: readonly ParsedTemplate[]; readonly problem: string | undefined } {
  const own = tokenizersTemplates(folder, config)
  if (own === undefined) return { templates: [], problem: 'chat_template is neither a text nor a list of named ones' }
  const named = hasProcessor(names) ? withProcessors(folder, own) : own
  try {
    const templates = named.map(({ name, template }) => ({ name, source: template, parsed: parseTemplate(template) }))
    return { templates, problem: undefined }
  } catch (cause) {
    return { templates: [], problem: cause instanceof Error ? cause.message : String(cause) }
  }
}

interface NamedTemplate {
  readonly name: string
  readonly template: string
}

/** Templates of their own files, else those of the configuration, which may be a list. */
function tokenizersTemplates(
  folder: string,
  { chat_template: entry }: TokenizerConfigFile,
): readonly NamedTemplate[] | undefined {
  const file = readBytes(folder, 'chat_template.jinja', templateBytesMax)
  const files = [...(file ? [{ name: 'default', template: file.toString('utf8') }] : []), ...moreTemplates(folder)]
  if (files.length > 0 || entry === undefined || entry === null) return files
  if (typeof entry === 'string') return [{ name: 'default', template: entry }]
  return isNamedList(entry) ? entry : undefined
}

/** A folder without the model itself may lack them: then a template that only a processor reads is the sign. */
function hasProcessor(names: readonly string[]): boolean {
  const has = (name: string): boolean => names.includes(name)
  if (has('processor_config.json') || has('preprocessor_config.json')) return true
  return has('chat_template.json') && !names.some((name) => /\.(safetensors|bin|gguf)$/.test(name))
}

/** A processor's is the default; beside it stands what the tokenizer takes for a chat with tools. */
function withProcessors(folder: string, own: readonly NamedTemplate[]): readonly NamedTemplate[] {
  const more = moreTemplates(folder)
  const legacy = templateOf(folder, 'chat_template.json')
  if (legacy !== undefined && more.length > 0) return own // transformers refuses both at once, and vLLM goes on without a processor
  const template = templateOf(folder, 'processor_config.json') ?? legacy
  const of = (name: string): string | undefined => own.findLast((it) => it.name === name)?.template
  if (template === undefined) {
    const rest = own.filter((it) => !more.some(({ name }) => name === it.name))
    return more.length === 0 ? own : [...more, ...rest]
  }
  const tokenizers = of('tool_use') ?? of('default')
  return [
    { name: 'default', template },
    ...(tokenizers === undefined ? [] : [{ name: tokenizersName, template: tokenizers }]),
  ]
}

function templateOf(folder: string, name: string): string | undefined {
  const { chat_template: template } = (readJson(folder, name) ?? {}) as { readonly chat_template?: unknown }
  return typeof template === 'string' ? template : undefined
}

function isNamedList(value: unknown): value is readonly NamedTemplate[] {
  const isNamed = (it: Partial<NamedTemplate> | null): boolean =>
    typeof it?.name === 'string' && typeof it.template === 'string'
  return Array.isArray(value) && value.every(isNamed)
}

/** `additional_chat_templates/NAME.jinja`, where newer tools write named templates. */
function moreTemplates(folder: string): NamedTemplate[] {
  const more = join(folder, 'additional_chat_templates')
  if (!existsSync(more)) return []
  const files = readdirSync(more).filter((name) => name.endsWith('.jinja'))
  return files.map((file) => ({
    name: file.slice(0, -'.jinja'.length),
    template: readBytes(more, file, templateBytesMax)!.toString('utf8'),
  }))
}
