/** A model's tokenizer files, read and prepared: plain data that threads hand to each other, most of it shared and not copied. */
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { gunzipSync } from 'node:zlib'
import { WarmrouteError } from '../../core/protocol/index.js'
import type { ParsedTemplate } from '../chat/chat-template.js'
import { parseTemplate } from '../template/parse.js'
import { buildVocabulary } from '../vocabulary/build-vocabulary.js'
import { idMaxOf } from '../vocabulary/id-max.js'
import type { EncoderPlan, LibraryPlan, PlanOptions } from '../vocabulary/plan.js'
import { planEncoder } from '../vocabulary/plan.js'
import type { TokenizerConfigFile, TokenizerFile } from '../vocabulary/tokenizer-file.js'
import { specialTokenText, whatIsWrongWith } from '../vocabulary/tokenizer-file.js'

export interface LoadedModel {
  /** Names this version of the files to the threads; never reused. */
  readonly key: string
  /** JSON of the plan, shared: an added-token list takes longer to copy than to parse once. */
  readonly plan: SharedArrayBuffer
  /** The vocabulary's tables, or nothing where the library encodes. */
  readonly vocabulary: SharedArrayBuffer | undefined
  /** `tokenizer.json` and `tokenizer_config.json` for the library, where it encodes. */
  readonly library: SharedArrayBuffer | undefined
  readonly templates: readonly ParsedTemplate[]
  /** Why a template could not be used, if so. */
  readonly templateProblem: string | undefined
  readonly specials: Readonly<Record<string, string>>
  /** The highest token id that the model has, where the files tell. */
  readonly idMax: number | undefined
}

const filesBytesMax = 256 << 20

/** Reads a folder with `tokenizer.json` (or `tokenizer.json.gz`), `tokenizer_config.json`, `config.json` and templates. Slow: for a thread. */
export function loadModel(folder: string, key: string, options: PlanOptions = {}): LoadedModel {
  const file = readJson(folder, 'tokenizer.json') as TokenizerFile | undefined
  const problem = file === undefined ? 'there is no tokenizer.json' : whatIsWrongWith(file)
  if (file === undefined || problem) throw new WarmrouteError('WR_TOKENS_BAD_TOKENIZER', { reason: problem, folder })
  const config = (readJson(folder, 'tokenizer_config.json') ?? {}) as TokenizerConfigFile
  const built = planAndBuild(file, config, options)
  const { templates, problem: templateProblem } = readTemplates(folder, config)
  return {
    key,
    plan: share(JSON.stringify(built.plan)),
    vocabulary: built.vocabulary,
    library: built.vocabulary ? undefined : share(JSON.stringify([file, config])),
    templates,
    templateProblem,
    specials: readSpecials(folder, config),
    idMax: idMaxOf(file, readModelConfig(folder)),
  }
}

export function readShared(buffer: SharedArrayBuffer): string {
  return new TextDecoder().decode(new Uint8Array(buffer).slice())
}

function share(text: string): SharedArrayBuffer {
  const bytes = new TextEncoder().encode(text)
  const buffer = new SharedArrayBuffer(bytes.length)
  new Uint8Array(buffer).set(bytes)
  return buffer
}

function planAndBuild(
  file: TokenizerFile,
  config: TokenizerConfigFile,
  options: PlanOptions,
): { readonly plan: EncoderPlan | LibraryPlan; readonly vocabulary: SharedArrayBuffer | undefined } {
  const plan = planEncoder(file, config, options)
  if (plan.kind === 'library') return { plan, vocabulary: undefined }
  const vocabulary = buildVocabulary(file.model, plan.kind)
  if (typeof vocabulary !== 'string') return { plan, vocabulary: vocabulary.buffer }
  const { specialsBefore, specialsAfter } = plan
  return { plan: { kind: 'library', reason: vocabulary, specialsBefore, specialsAfter }, vocabulary: undefined }
}

/** `chat_template.jinja` before `chat_template.json` before `tokenizer_config.json`, which may hold a list of named ones. */
function readTemplates(
  folder: string,
  config: TokenizerConfigFile,
): { readonly templates: readonly ParsedTemplate[]; readonly problem: string | undefined } {
  const file = join(folder, 'chat_template.jinja')
  const fromJson = readJson(folder, 'chat_template.json') as { readonly chat_template?: unknown } | undefined
  const entry = existsSync(file) ? readFileSync(file, 'utf8') : (fromJson?.chat_template ?? config.chat_template)
  if (entry === undefined || entry === null) return { templates: [], problem: undefined }
  const named =
    typeof entry === 'string'
      ? [{ name: 'default', template: entry }, ...moreTemplates(folder)]
      : (entry as readonly { readonly name: string; readonly template: string }[])
  try {
    const templates = named.map(({ name, template }) => ({ name, source: template, parsed: parseTemplate(template) }))
    return { templates, problem: undefined }
  } catch (cause) {
    return { templates: [], problem: cause instanceof Error ? cause.message : String(cause) }
  }
}

/** `additional_chat_templates/NAME.jinja`, where newer tools write named templates. */
function moreTemplates(folder: string): { readonly name: string; readonly template: string }[] {
  const more = join(folder, 'additional_chat_templates')
  if (!existsSync(more)) return []
  const files = readdirSync(more).filter((name) => name.endsWith('.jinja'))
  return files.map((file) => ({
    name: file.slice(0, -'.jinja'.length),
    template: readFileSync(join(more, file), 'utf8'),
  }))
}

/** `bos_token` and the like: every configured special token that has a text. */
function readSpecials(folder: string, config: TokenizerConfigFile): Readonly<Record<string, string>> {
  const map = (readJson(folder, 'special_tokens_map.json') ?? {}) as Record<string, unknown>
  const specials: Record<string, string> = {}
  for (const [name, entry] of Object.entries({ ...map, ...config })) {
    const text = name.endsWith('_token') ? specialTokenText(entry) : undefined
    if (text !== undefined) specials[name] = text
  }
  return specials
}

/** Tokens are made without it: one that cannot be read tells nothing. */
function readModelConfig(folder: string): unknown {
  try {
    return readJson(folder, 'config.json')
  } catch {
    return undefined
  }
}

function readJson(folder: string, name: string): unknown {
  const path = join(folder, name)
  const packed = `${path}.gz`
  const bytes = existsSync(path)
    ? readFileSync(path)
    : existsSync(packed)
      ? gunzipSync(readFileSync(packed))
      : undefined
  if (bytes === undefined) return undefined
  if (bytes.length > filesBytesMax)
    throw new WarmrouteError('WR_TOKENS_BAD_TOKENIZER', { reason: `${name} is too large`, folder })
  try {
    return JSON.parse(bytes.toString('utf8')) as unknown
  } catch (cause) {
    throw new WarmrouteError('WR_TOKENS_BAD_TOKENIZER', { reason: `${name} is no JSON`, folder }, { cause })
  }
}
