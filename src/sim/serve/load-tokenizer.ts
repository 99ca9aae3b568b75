/** A real model's tokenizer behind the simulator's port: the same files, encoder and chat rendering as the router's. */
import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { Tokenizer } from '@huggingface/tokenizers'
import { WarmrouteError } from '../../core/protocol/index.js'
import type { Body } from '../../tokens/index.js'
import { FolderTokenizer } from '../../tokens/index.js'
import type { ChatMessage, ChatOptions, SimTokenizer } from './tokenizer.js'

type JsonObject = Record<string, unknown>

/**
 * A real model's tokenizer for a simulated engine. Blocking: it runs once, before the first request.
 *
 * @example
 * import { loadTokenizer, startSimEngine } from 'warmroute/sim'
 *
 * async function serveAs(folder: string): Promise<void> {
 *   const engine = await startSimEngine({ engine: 'vllm', tokenizer: loadTokenizer(folder) })
 *   await engine.close()
 * }
 */
export function loadTokenizer(folder: string): SimTokenizer {
  const file = readJson(join(folder, 'tokenizer.json'))
  const configPath = join(folder, 'tokenizer_config.json')
  const config = existsSync(configPath) ? readJson(configPath) : {}
  const { own, library } = open(folder, file, config)
  const eos = specialOf(config, 'eos_token') ?? '</s>'
  const size = 1 + idsOf(file).reduce((most, id) => Math.max(most, id), -1)

  /** The exact encoder where it knows the tokenizer's steps, the library elsewhere. */
  const encode = (text: string, isBosAdded: boolean): number[] =>
    own.encoder
      ? Array.from(own.encoder.encode(text, isBosAdded))
      : library.encode(text, { add_special_tokens: isBosAdded }).ids
  const applyTemplate = (messages: readonly ChatMessage[], options: ChatOptions): string => {
    const { tools, toolChoice, isGenerationPromptAdded: isAdded, dialect } = options
    const shown = tools?.length ? { tools, tool_choice: toolChoice } : {}
    const body = { messages, add_generation_prompt: isAdded, ...shown }
    return own.renderChat(body as unknown as Body, dialect)
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
    told: { specials: own.specials, chatTemplate: own.templateSource, added: addedOf(file) },
  }
}

/** Added tokens lie behind the vocabulary, and some vocabularies have gaps. A unigram's is a list. */
function idsOf(file: JsonObject): number[] {
  const { vocab } = file['model'] as { vocab: Record<string, number> | readonly unknown[] }
  const added = (file['added_tokens'] ?? []) as readonly { readonly id: number }[]
  return [
    ...(Array.isArray(vocab) ? vocab.keys() : Object.values(vocab as Record<string, number>)),
    ...added.map(({ id }) => id),
  ]
}

function addedOf(file: JsonObject): Record<string, string> {
  const added = (file['added_tokens'] ?? []) as readonly { readonly id: number; readonly content: string }[]
  return Object.fromEntries(added.map(({ id, content }) => [String(id), content]))
}

function open(folder: string, file: JsonObject, config: JsonObject): { own: FolderTokenizer; library: Tokenizer } {
  try {
    return { own: new FolderTokenizer(folder), library: new Tokenizer(file, config) }
  } catch (cause) {
    const reason = cause instanceof Error ? cause.message : String(cause)
    throw new WarmrouteError('WR_INVALID_ARGUMENT', { reason: `${folder}: ${reason}`, folder }, { cause })
  }
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
