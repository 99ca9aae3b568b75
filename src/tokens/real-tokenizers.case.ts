/** Five real tokenizers of different kinds and the Rust binding as their oracle. Shared by the tests of this room. */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { gunzipSync } from 'node:zlib'
import { Tokenizer as RustTokenizer } from 'tokenizers'
import { tokenizerFolder } from '../../bench/tokens/texts.js'
import type { EncoderOptions } from './encode/encoder.js'
import { Encoder } from './encode/encoder.js'
import { buildVocabulary } from './vocabulary/build-vocabulary.js'
import type { EncoderPlan } from './vocabulary/plan.js'
import { planEncoder } from './vocabulary/plan.js'
import type { Step, TokenizerConfigFile, TokenizerFile } from './vocabulary/tokenizer-file.js'
import type { Vocabulary } from './vocabulary/vocabulary.js'

export const tinyllamaFolder: string = fileURLToPath(new URL('../../test/fixtures/tinyllama', import.meta.url))

export const realNames = ['qwen3', 'llama3', 'deepseek_v3', 'gpt2', 'tinyllama'] as const
export type RealName = (typeof realNames)[number]

export interface RealTokenizer {
  readonly name: string
  readonly file: TokenizerFile
  readonly config: TokenizerConfigFile
  readonly plan: EncoderPlan
  readonly vocabulary: Vocabulary
  newEncoder(options?: EncoderOptions): Encoder
  /** What the Rust binding says, without special tokens around the text unless asked for. */
  oracle(text: string, addSpecialTokens?: boolean): Promise<number[]>
}

const loaded = new Map<string, RealTokenizer>()
const files = new Map<RealName, TokenizerFile>()
const vocabularies = new Map<string, Vocabulary>()

export function readTokenizerText(name: RealName): string {
  if (name === 'tinyllama') return gunzipSync(readFileSync(join(tinyllamaFolder, 'tokenizer.json.gz'))).toString('utf8')
  return readFileSync(join(tokenizerFolder(name), 'tokenizer.json'), 'utf8')
}

export function readTokenizerConfig(name: RealName): TokenizerConfigFile {
  const folder = name === 'tinyllama' ? tinyllamaFolder : tokenizerFolder(name)
  return JSON.parse(readFileSync(join(folder, 'tokenizer_config.json'), 'utf8')) as TokenizerConfigFile
}

const byteLevel = { type: 'ByteLevel', add_prefix_space: false, trim_offsets: false, use_regex: false }

/** A pre-tokenizer that cuts by a pattern. */
export function splitBy(Regex: string): { readonly type: string; readonly pretokenizers: readonly Step[] } {
  const split = { type: 'Split', pattern: { Regex }, behavior: 'Isolated', invert: false }
  return { type: 'Sequence', pretokenizers: [split, byteLevel] }
}

/** As they stand in the files of gpt-oss and of Mistral Nemo. */
export const patternOfGptOss: string = String.raw`[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+`
export const patternOfTekken: string = String.raw`[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+`

/** The tokenizer as its own `tokenizer.json` describes it. */
export function realTokenizer(name: RealName): RealTokenizer {
  return once(loaded, name, () => loadTokenizer(name, name, {}))
}

/** A real tokenizer with parts of its file replaced, to meet steps that none of the five has. */
export function changedTokenizer(name: RealName, what: string, change: Partial<TokenizerFile>): RealTokenizer {
  return once(loaded, `${name} ${what}`, () => loadTokenizer(`${name} ${what}`, name, change))
}

function once<Key, Value>(known: Map<Key, Value>, key: Key, make: () => Value): Value {
  const value = known.get(key) ?? make()
  known.set(key, value)
  return value
}

function loadTokenizer(name: string, real: RealName, change: Partial<TokenizerFile>): RealTokenizer {
  const ofReal = once(files, real, () => JSON.parse(readTokenizerText(real)) as TokenizerFile)
  const file = { ...ofReal, ...change }
  const plan = planEncoder(file, {})
  if (plan.kind === 'library') throw new Error(`${name} needs the library: ${plan.reason}`)
  const build = (): Vocabulary => {
    const vocabulary = buildVocabulary(file.model, plan.kind)
    if (typeof vocabulary === 'string') throw new Error(`${name} needs the library: ${vocabulary}`)
    return vocabulary
  }
  // Nearly all of a file is its words, and what is built of them is only ever read.
  const vocabulary = change.model ? build() : once(vocabularies, `${real} ${plan.kind}`, build)
  const rust = RustTokenizer.fromString(name === real ? readTokenizerText(real) : JSON.stringify(file))
  return {
    name,
    file,
    config: readTokenizerConfig(real),
    plan,
    vocabulary,
    newEncoder: (encoderOptions) => new Encoder(plan, vocabulary, encoderOptions),
    oracle: async (input, addSpecialTokens = false) => (await rust.encode(input, null, { addSpecialTokens })).getIds(),
  }
}
