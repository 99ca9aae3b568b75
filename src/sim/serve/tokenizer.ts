/**
 * From text to tokens and back, for engines that are only simulated. The default needs no files: fixed pieces of up to three
 * characters, the same in every process, reversible for every text.
 *
 *   0 <unk>  1 <s>  2 </s>  3 …258 bytes  259 … pairs of printable ASCII  9284 … triples of a-z and space
 */

export interface ChatMessage {
  readonly role: string
  readonly content?: unknown
  readonly tool_calls?: unknown
}

export interface ChatOptions {
  readonly tools?: readonly unknown[] | undefined
  readonly isGenerationPromptAdded: boolean
  /** Which of the tools may be called, where that decides what is shown of them. */
  readonly toolChoice?: unknown
  /** Whose rules shape the messages before a real template sees them; vLLM's unless told. */
  readonly dialect?: 'vllm' | 'sglang' | undefined
}

/**
 * How a simulated engine reads and writes text.
 *
 * @example
 * import { loadTokenizer, type SimTokenizer } from 'warmroute/sim'
 *
 * function countTokens(folder: string, text: string): number {
 *   const tokenizer: SimTokenizer = loadTokenizer(folder)
 *   return tokenizer.encode(text, { isBosAdded: true }).length
 * }
 */
export interface SimTokenizer {
  readonly name: string
  readonly vocabularySize: number
  readonly eosId: number
  encode(text: string, options: { readonly isBosAdded: boolean }): number[]
  decode(tokens: readonly number[]): string
  /** The pieces themselves, as `return_token_strs` shows them. */
  pieceOf(token: number): string
  /** A conversation as the model reads it: what is sent to `encode` without BOS. */
  applyTemplate(messages: readonly ChatMessage[], options: ChatOptions): string
  encodeChat(messages: readonly ChatMessage[], options: ChatOptions): number[]
  /** Ids that read like words: what a simulated answer is made of. */
  readonly wordIds: { readonly from: number; readonly to: number }
  /** What a server that was started to tells of it; nothing where nothing is known. */
  readonly told?: ToldParts
}

/** As vLLM's `/tokenizer_info` shows them: special tokens and added ones by their text alone. */
export interface ToldParts {
  readonly specials: Readonly<Record<string, string>>
  readonly chatTemplate: string | undefined
  readonly added: Readonly<Record<string, string>>
}

const byteBase = 3
const pairBase = byteBase + 256
const tripleBase = pairBase + 95 * 95
const letters = ' abcdefghijklmnopqrstuvwxyz'
const vocabularySize = tripleBase + 27 ** 3
const specials = ['<unk>', '<s>', '</s>']

export function createSimTokenizer(): SimTokenizer {
  const tokenizer: SimTokenizer = {
    name: 'sim',
    vocabularySize,
    eosId: 2,
    wordIds: { from: tripleBase + 27 * 27, to: vocabularySize },
    encode: (text, { isBosAdded }) => encodeText(text, isBosAdded ? [1] : []),
    decode: (tokens) => Buffer.concat(tokens.map(bytesOf)).toString('utf8'),
    pieceOf: (token) => bytesOf(token).toString('utf8'),
    applyTemplate: renderChat,
    encodeChat: (messages, options) => encodeText(renderChat(messages, options), []),
    told: {
      specials: { unk_token: '<unk>', bos_token: '<s>', eos_token: '</s>' },
      chatTemplate,
      added: Object.fromEntries(specials.map((text, id) => [String(id), text])),
    },
  }
  return tokenizer
}

/** Zephyr-like: role, content, end of turn; then the assistant's turn is opened. */
function renderChat(messages: readonly ChatMessage[], options: ChatOptions): string {
  const tools = options.tools?.length
    ? `<|tools|>\n${options.tools.map((tool) => JSON.stringify(tool)).join('\n')}</s>\n`
    : ''
  const turns = messages.map(({ role, content, tool_calls: calls }) => {
    const called = Array.isArray(calls)
      ? calls.map((call) => `<tool_call>${JSON.stringify(call)}</tool_call>`).join('')
      : ''
    return `<|${role}|>\n${contentText(content)}${called}</s>\n`
  })
  return `<s>${tools}${turns.join('')}${options.isGenerationPromptAdded ? '<|assistant|>\n' : ''}`
}

/** `renderChat` in Jinja, for conversations of text. Tools are printed as JavaScript does, which no template can. (`developer` is a role.) */
const chatTemplate = `{%- if tools %}{{ raise_exception('the simulator prints its tools itself') }}{% endif %}
{{- '<s>' }}
{%- for message in messages %}
{%- if message['tool_calls'] %}{{ raise_exception('the simulator prints its calls itself') }}{% endif %}
{{- '<|' + message['role'] + '|>\\n' }}
{%- if message['content'] is string %}{{- message['content'] }}
{%- else %}{%- for part in message['content'] %}{{- part['text'] }}{%- endfor %}
{%- endif %}
{{- '</s>\\n' }}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<|assistant|>\\n' }}{%- endif %}{# 'developer' is a role of its own #}`

function contentText(content: unknown): string {
  if (typeof content === 'string') return content
  if (!Array.isArray(content)) return ''
  return content
    .map((part: { type?: unknown; text?: unknown }) => (typeof part?.text === 'string' ? part.text : ''))
    .join('')
}

/** Special tokens are found first, as everywhere: a turn's tokens do not depend on the next turn. */
function encodeText(text: string, tokens: number[]): number[] {
  for (const part of text.split(/(<unk>|<s>|<\/s>)/)) {
    const special = specials.indexOf(part)
    if (special >= 0) tokens.push(special)
    else encodePieces(part, tokens)
  }
  return tokens
}

function encodePieces(text: string, tokens: number[]): number[] {
  let at = 0
  while (at < text.length) {
    const first = letterAt(text, at)
    const second = letterAt(text, at + 1)
    const third = letterAt(text, at + 2)
    if (first >= 0 && second >= 0 && third >= 0) {
      tokens.push(tripleBase + (first * 27 + second) * 27 + third)
      at += 3
    } else if (isPrintable(text, at) && isPrintable(text, at + 1)) {
      tokens.push(pairBase + (text.charCodeAt(at) - 32) * 95 + text.charCodeAt(at + 1) - 32)
      at += 2
    } else {
      const character = String.fromCodePoint(text.codePointAt(at)!)
      for (const byte of Buffer.from(character)) tokens.push(byteBase + byte)
      at += character.length
    }
  }
  return tokens
}

function bytesOf(token: number): Buffer {
  if (token < byteBase) return Buffer.from(specials[token] ?? '')
  if (token < pairBase) return Buffer.from([token - byteBase])
  if (token < tripleBase) {
    const pair = token - pairBase
    return Buffer.from([32 + Math.floor(pair / 95), 32 + (pair % 95)])
  }
  const triple = token - tripleBase
  if (triple >= 27 ** 3) return Buffer.alloc(0)
  return Buffer.from(
    letters[Math.floor(triple / 729)]! + letters[Math.floor(triple / 27) % 27]! + letters[triple % 27]!,
  )
}

/** 0 is a space, 1 to 26 are a to z, -1 is anything else. */
function letterAt(text: string, at: number): number {
  const code = text.charCodeAt(at)
  if (code === 32) return 0
  return code >= 97 && code <= 122 ? code - 96 : -1
}

function isPrintable(text: string, at: number): boolean {
  const code = text.charCodeAt(at)
  return code >= 32 && code < 127
}
