/** A model's tokenizer files, read and prepared: plain data that threads hand to each other, most of it shared and not copied. */
import { existsSync, readdirSync, readFileSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { gunzipSync } from 'node:zlib'
import { WarmrouteError } from '../../core/protocol/index.js'
import type { ParsedTemplate } from '../chat/chat-template.js'
import { tokenizersName } from '../chat/chat-template.js'
import { LibraryTokenizer } from '../encode/library-tokenizer.js'
import type { OwnRenderers } from '../sources/own-renderers.js'
import { ownRenderersOf } from '../sources/own-renderers.js'
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
  /** Chats that engines render by code of their own. */
  readonly ownRenderers: OwnRenderers
}

const fileBytesMax = 256 << 20
const templateBytesMax = 4 << 20

/** Reads a folder with `tokenizer.json` (or `tokenizer.json.gz`), `tokenizer_config.json`, `config.json` and templates. Slow: for a thread. */
export function loadModel(folder: string, key: string, options: PlanOptions = {}): LoadedModel {
  const file = readJson(folder, 'tokenizer.json') as TokenizerFile | undefined
  const problem = file === undefined ? 'there is no tokenizer.json' : whatIsWrongWith(file)
  if (file === undefined || problem) throw new WarmrouteError('WR_TOKENS_BAD_TOKENIZER', { reason: problem, folder })
  const config = (readJson(folder, 'tokenizer_config.json') ?? {}) as TokenizerConfigFile
  const built = buildOrRefuse(folder, () => planAndBuild(file, config, options))
  const { templates, problem: templateProblem } = readTemplates(folder, config)
  const modelConfig = readModelConfig(folder)
  return {
    key,
    plan: share(JSON.stringify(built.plan)),
    vocabulary: built.vocabulary,
    library: built.vocabulary ? undefined : share(JSON.stringify([file, config])),
    templates,
    templateProblem,
    specials: readSpecials(folder, config),
    idMax: idMaxOf(file, modelConfig),
    ownRenderers: ownRenderersOf(modelConfig, readdirSync(folder)),
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

interface Built {
  readonly plan: EncoderPlan | LibraryPlan
  readonly vocabulary: SharedArrayBuffer | undefined
}

/** A file may have any shape inside, and what stumbles over it says so in words of its own. */
function buildOrRefuse(folder: string, build: () => Built): Built {
  try {
    return build()
  } catch (cause) {
    const reason = `tokenizer.json cannot be used: ${cause instanceof Error ? cause.message : String(cause)}`
    throw new WarmrouteError('WR_TOKENS_BAD_TOKENIZER', { reason, folder }, { cause })
  }
}

function planAndBuild(file: TokenizerFile, config: TokenizerConfigFile, options: PlanOptions): Built {
  const plan = planEncoder(file, config, options)
  const vocabulary = plan.kind === 'library' ? plan.reason : buildVocabulary(file.model, plan.kind)
  if (typeof vocabulary !== 'string') return { plan, vocabulary: vocabulary.buffer }
  new LibraryTokenizer(file, config) // now: a source that comes after this one may serve where the library does not
  const { specialsBefore, specialsAfter } = plan
  return { plan: { kind: 'library', reason: vocabulary, specialsBefore, specialsAfter }, vocabulary: undefined }
}

/**
 * `chat_template.jinja` before `chat_template.json` before `tokenizer_config.json`, which may hold a list of named ones. The second is a
 * processor's, beside which the tokenizer has its own still.
 */
function readTemplates(
  folder: string,
  config: TokenizerConfigFile,
): { readonly templates: readonly ParsedTemplate[]; readonly problem: string | undefined } {
  const file = readBytes(folder, 'chat_template.jinja', templateBytesMax)
  const fromJson = readJson(folder, 'chat_template.json') as { readonly chat_template?: unknown } | undefined
  const entry = file?.toString('utf8') ?? fromJson?.chat_template ?? config.chat_template
  if (entry === undefined || entry === null) return { templates: [], problem: undefined }
  const more = file === undefined && entry !== config.chat_template ? tokenizersOwn(config.chat_template) : []
  const named =
    typeof entry === 'string' ? [{ name: 'default', template: entry }, ...moreTemplates(folder), ...more] : entry
  if (!isNamedList(named)) return { templates: [], problem: 'chat_template is neither a text nor a list of named ones' }
  try {
    const templates = named.map(({ name, template }) => ({ name, source: template, parsed: parseTemplate(template) }))
    return { templates, problem: undefined }
  } catch (cause) {
    return { templates: [], problem: cause instanceof Error ? cause.message : String(cause) }
  }
}

/** What the tokenizer takes for a chat with tools. */
function tokenizersOwn(entry: unknown): NamedTemplate[] {
  const named = isNamedList(entry) ? entry : []
  const found = (name: string): string | undefined => named.findLast((it) => it.name === name)?.template
  const template = typeof entry === 'string' ? entry : (found('tool_use') ?? found('default'))
  return template === undefined ? [] : [{ name: tokenizersName, template }]
}

interface NamedTemplate {
  readonly name: string
  readonly template: string
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
  const bytes = readBytes(folder, name, fileBytesMax)
  if (bytes === undefined) return undefined
  try {
    return JSON.parse(bytes.toString('utf8')) as unknown
  } catch (cause) {
    throw new WarmrouteError('WR_TOKENS_BAD_TOKENIZER', { reason: `${name} is no JSON`, folder }, { cause })
  }
}

/** A file, packed or not; undefined where there is none. How long it is is known before its memory is taken. */
function readBytes(folder: string, name: string, bytesMax: number): Buffer | undefined {
  const path = join(folder, name)
  const packed = `${path}.gz`
  const found = [path, packed].find((it) => existsSync(it))
  if (found === undefined) return undefined
  const refuse = (cause?: unknown): never => {
    throw new WarmrouteError('WR_TOKENS_BAD_TOKENIZER', { reason: `${name} is too large`, folder }, { cause })
  }
  if (statSync(found).size > bytesMax) return refuse()
  const bytes = readFileSync(found)
  if (found === path) return bytes
  try {
    return gunzipSync(bytes, { maxOutputLength: bytesMax })
  } catch (cause) {
    if ((cause as NodeJS.ErrnoException).code === 'ERR_BUFFER_TOO_LARGE') return refuse(cause)
    throw new WarmrouteError('WR_TOKENS_BAD_TOKENIZER', { reason: `${name}.gz cannot be unpacked`, folder }, { cause })
  }
}
