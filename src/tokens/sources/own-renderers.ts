/**
 * Models whose chats an engine renders by code of its own and not by their template (`spec/engines.md` 3.2): what the template makes of a
 * chat is nobody's prompt then. Which they are is decided by the engine from `config.json` and the files beside it; follows vLLM 0.32.0
 * and SGLang 0.5.23. Their texts and ids are those of everybody; their chats only the engine knows, where it renders for others.
 */
import type { Body, Dialect, Route } from '../chat/request.js'
import { carriedIds, LoadOnlyError } from '../chat/request.js'
import type { TokenSource } from './source.js'

/** The routes that it is so for, by engine; absent: none. */
export type OwnRenderers = Readonly<Partial<Record<Dialect, readonly Route[]>>>

const chats: readonly Route[] = ['chat', 'responses', 'messages']
const vllmArchitectures = new Set([
  'DeepseekV32ForCausalLM',
  'DeepseekV4ForCausalLM',
  'DeepseekV4ForConditionalGeneration',
  'DeepseekV41ForCausalLM',
  'InklingForCausalLM',
  'InklingForConditionalGeneration',
  'KimiK3ForConditionalGeneration',
])
/** DeepSeek V3.2 by its template or not, as its tool parser says, which nobody asks. */
const sglangArchitectures = ['DeepseekV32', 'DeepseekV4', 'KimiK3', 'InklingForConditionalGeneration']
/** Those that SGLang has templates of its own for; others it knows by the path of the model. */
const sglangTypes = new Set<unknown>([
  'deepseek-ocr',
  'deepseek_v41',
  'deepseek_vl_v2',
  'internvl_chat',
  'minicpmo',
  'minicpmv',
  'minimax_m3_vl', // its efforts and the order of results are settled first
  'moss_vl',
  'multi_modality',
  'paddleocr_vl',
  'phi4mm',
  'unlimited-ocr',
  'whisper',
])

/** The marks of gpt-oss's format: to a tokenizer that has them as tokens, six. An engine that tells nothing else shows by it what it serves. */
export const harmonyMarks: readonly string[] = [
  '<|start|>',
  '<|channel|>',
  '<|message|>',
  '<|end|>',
  '<|call|>',
  '<|return|>',
]

/** What the template of GLM 5.3 says, and those of its elders, which are of the same architecture, do not. */
const glmSigns = ['[gMASK]<sop>', 'Reasoning Effort:', '<tool_call>', '<arg_key>', '<arg_value>']

function isGlm53(name: string | undefined, template: string): boolean {
  if (name !== 'GlmMoeDsaForCausalLM' && name !== 'Glm5NextForConditionalGeneration') return false
  return glmSigns.every((sign) => template.includes(sign)) && !template.includes('enable_thinking')
}

/** `fileNames`: of the model's folder; `template`: the one that SGLang would take. */
export function ownRenderersOf(config: unknown, fileNames: readonly string[], template = ''): OwnRenderers {
  const { model_type: type, architectures } = (config ?? {}) as { model_type?: unknown; architectures?: unknown }
  const names = Array.isArray(architectures) ? architectures.filter((it) => typeof it === 'string') : []
  const isHarmony = type === 'gpt_oss'
  const isMistral =
    fileNames.some((name) => /^consolidated.*\.safetensors$/.test(name)) &&
    fileNames.some((name) => name === 'tekken.json' || name.startsWith('tokenizer.model.v'))
  const isVllms = isHarmony || isMistral || names.some((name) => vllmArchitectures.has(name))
  const isNamed = sglangArchitectures.some((part) => names[0]?.includes(part)) || isGlm53(names[0], template)
  const isSglangs = isNamed || sglangTypes.has(type)
  return {
    ...(isVllms ? { vllm: chats } : {}),
    // Chats of gpt-oss SGLang renders by the template, and responses not.
    ...(isSglangs ? { sglang: chats } : isHarmony ? { sglang: ['responses'] } : {}),
  }
}

const textConfigs = ['text_config', 'llm_config', 'language_config', 'thinker_config', 'vision_config', 'audio_config']
/** They take media only where SGLang was started with `--enable-multimodal`. */
const mediaIsOff = [
  'Gemma3ForConditionalGeneration',
  'Llama4ForConditionalGeneration',
  'Step3VLForConditionalGeneration',
]

/** Whether SGLang encodes what it rendered again; undefined: never, the model takes no media. */
export function isUsuallyEncodedAgain(config: unknown): boolean | undefined {
  if (typeof config !== 'object' || config === null) return undefined
  if (!textConfigs.some((name) => Object.hasOwn(config, name))) return undefined
  const { architectures } = config as { architectures?: unknown }
  const [name] = Array.isArray(architectures) ? (architectures as readonly unknown[]) : []
  return !mediaIsOff.includes(name as string)
}

/** The source, but for what the engine renders by itself: that is refused as `own-renderer`. */
export function withoutOwnRendered(source: TokenSource, own: OwnRenderers | undefined, dialect: Dialect): TokenSource {
  const routes = own?.[dialect]
  if (!routes) return source
  return {
    counts: source.counts,
    tokenize: async (route, body, options) => {
      if (routes.includes(route) && !isCarried(route, body, dialect))
        throw new LoadOnlyError('own-renderer', `${dialect} renders it by code of its own`)
      return source.tokenize(route, body, options)
    },
  }
}

function isCarried(route: Route, body: Body | undefined, dialect: Dialect): boolean {
  return body !== undefined && carriedIds(route, body, dialect) !== undefined
}

/** For people. */
export function whyOwnRendered(own: OwnRenderers, dialect: Dialect): string | undefined {
  const routes = own[dialect]
  return routes && `${dialect} renders this model's ${routes.join(', ')} by code of its own, not by its template`
}
