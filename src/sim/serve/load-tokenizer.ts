/** A real model's tokenizer behind the simulator's port: `tokenizer.json`, and `tokenizer_config.json` for the chat template. */
import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { Template } from '@huggingface/jinja'
import { Tokenizer } from '@huggingface/tokenizers'
import { WarmrouteError } from '../../core/protocol/index.js'
import { buildVocabulary, Encoder, planEncoder, whatIsWrongWith } from '../../tokens/index.js'
import type { TokenizerConfigFile, TokenizerFile } from '../../tokens/index.js'
import type { ChatMessage, ChatOptions, SimTokenizer } from './tokenizer.js'

type JsonObject = Record<string, unknown>

/** Blocking: it runs once, before the first request. */
export function loadTokenizer(folder: string): SimTokenizer {
  const file = readJson(join(folder, 'tokenizer.json'))
  const configPath = join(folder, 'tokenizer_config.json')
  const config = existsSync(configPath) ? readJson(configPath) : {}
  const library = new Tokenizer(file, config)
  const encode = createEncode(folder, file, config, library)
  const eos = specialOf(config, 'eos_token') ?? '</s>'
  const size = Object.keys((file['model'] as JsonObject)['vocab'] as JsonObject).length
  const template = typeof config['chat_template'] === 'string' ? new Template(config['chat_template']) : undefined

  const applyTemplate = (messages: readonly ChatMessage[], options: ChatOptions): string => {
    if (!template) throw new WarmrouteError('WR_INVALID_ARGUMENT', { reason: `${folder} has no chat template`, folder })
    return template.render({
      messages,
      tools: options.tools ?? null,
      add_generation_prompt: options.isGenerationPromptAdded,
      bos_token: specialOf(config, 'bos_token') ?? '',
      eos_token: eos,
    })
  }
  return {
    name: folder,
    vocabularySize: size,
    eosId: library.token_to_id(eos) ?? 2,
    // The middle of a vocabulary is words in every family; its ends are bytes, specials and rare scripts.
    wordIds: { from: Math.floor(size * 0.1), to: Math.floor(size * 0.6) },
    encode: (text, { isBosAdded }) => encode(text, isBosAdded),
    decode: (tokens) => library.decode([...tokens], { skip_special_tokens: false }),
    pieceOf: (token) => library.id_to_token(token) ?? '',
    applyTemplate,
    encodeChat: (messages, options) => encode(applyTemplate(messages, options), false),
  }
}

/** The exact encoder of `tokens/` where it knows the tokenizer's steps, the library elsewhere. */
function createEncode(
  folder: string,
  file: JsonObject,
  config: JsonObject,
  library: Tokenizer,
): (text: string, isBosAdded: boolean) => number[] {
  const wrong = whatIsWrongWith(file)
  if (wrong !== undefined) throw new WarmrouteError('WR_INVALID_ARGUMENT', { reason: `${folder}: ${wrong}`, folder })
  const known = file as unknown as TokenizerFile
  const plan = planEncoder(known, config as TokenizerConfigFile)
  const vocabulary = plan.kind === 'library' ? plan.reason : buildVocabulary(known.model, plan.kind)
  if (plan.kind === 'library' || typeof vocabulary === 'string')
    return (text, isBosAdded) => library.encode(text, { add_special_tokens: isBosAdded }).ids
  const encoder = new Encoder(plan, vocabulary)
  return (text, isBosAdded) => Array.from(encoder.encode(text, isBosAdded))
}

function specialOf(config: JsonObject, key: string): string | undefined {
  const value = config[key]
  if (typeof value === 'string') return value
  return typeof value === 'object' && value !== null ? String((value as JsonObject)['content']) : undefined
}

function readJson(path: string): JsonObject {
  try {
    return JSON.parse(readFileSync(path, 'utf8')) as JsonObject
  } catch (cause) {
    throw new WarmrouteError('WR_INVALID_ARGUMENT', { reason: `cannot read ${path}`, path }, { cause })
  }
}
