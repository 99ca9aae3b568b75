/**
 * Which prompts an SGLang does not build by the model's own template: it may be started with another one, and knows some models by words in
 * their path, which it gives templates of its own. Follows `template_manager.py` and `conversation.py` of SGLang 0.5.23.
 */
import type { JsonRecord } from '../json.js'
import { asRecord, asText } from '../json.js'

/** Why not, in words for people; absent where it does. */
export interface OtherTemplates {
  readonly chats?: string
  readonly texts?: string
}

export function otherTemplatesOf(info: JsonRecord): OtherTemplates {
  const chats = whyOtherChats(info)
  const texts = isGiven(info['completion_template']) ? 'it was started with --completion-template' : undefined
  return { ...(chats === undefined ? {} : { chats }), ...(texts === undefined ? {} : { texts }) }
}

function whyOtherChats(info: JsonRecord): string | undefined {
  if (isGiven(info['chat_template'])) return 'it was started with --chat-template'
  const word = knownWord(asText(info['model_path']) ?? asText(info['tokenizer_path']) ?? '')
  if (word !== undefined) return `it has a template of its own for models with ${word} in their path`
  if (isGiven(info['hf_chat_template_name'])) return 'it was started with --hf-chat-template-name'
  if (hasEntries(info['default_chat_template_kwargs'])) return 'it was started with --default-chat-template-kwargs'
  if (info['reasoning_parser'] === 'hunyuan') return 'its reasoning parser gives every chat an effort'
  return undefined
}

const words: readonly RegExp[] = [
  /\bpoints\b/i,
  /moss.*vl/i,
  /internvl/i,
  /janus/i,
  /vicuna/i,
  /llava-v1\.5|llava-next-video-7b/i,
  /deepseek.*vl2/i,
  /llava-v1\.6-34b|llava-v1\.6-yi-34b|llava-next-video-34b|llava-onevision-qwen2/i,
  /^(?!.*minicpm-[vo]-4[._][67]).*(minicpm-[vo])/i, // those go by their template
  /phi-4-multimodal/i,
  /deepseek-ocr/i,
  /unlimited/i,
  /paddleocr/i,
  /whisper/i,
]

function knownWord(path: string): string | undefined {
  for (const word of words) {
    const found = word.exec(path)
    if (found) return found[1] ?? found[0]
  }
  return undefined
}

function isGiven(value: unknown): boolean {
  return typeof value === 'string' && value !== ''
}

/** A setting that is written as JSON may be told so. */
function hasEntries(value: unknown): boolean {
  if (typeof value === 'string') return !/^\s*(\{\s*\})?\s*$/.test(value)
  const record = asRecord(value)
  return record !== undefined && Object.keys(record).length > 0
}
