/** The regular expressions by which tokenizers cut texts that we have twins of, or know to take no longer than a text is long. */
import { letter, mark } from './char-classes.js'
import type { SplitPlan } from './plan.js'

export const gpt2Pattern: string = String.raw`'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+`
const contractions = "(?i:'s|'t|'re|'ve|'m|'ll|'d)?"

export const knownPatterns: Readonly<Record<string, SplitPlan>> = {
  [gpt2Pattern]: { kind: 'gpt2' },
  [cl100k(String.raw`\p{L}`, String.raw`\p{N}{1,3}`)]: { kind: 'cl100k', digitsMax: 3, letters: letter },
  [cl100k(String.raw`\p{L}`, String.raw`\p{N}`)]: { kind: 'cl100k', digitsMax: 1, letters: letter },
  [cl100k(String.raw`[\p{L}\p{M}]`, String.raw`\p{N}`, String.raw`\p{L}\p{M}`)]: {
    kind: 'cl100k',
    digitsMax: 1,
    letters: letter | mark,
  },
  [caseCutting(contractions, String.raw`\p{N}{1,3}`)]: { kind: 'cased', digitsMax: 3, takesContractions: true },
  [caseCutting('', String.raw`\p{N}`)]: { kind: 'cased', digitsMax: 1, takesContractions: false },
}
export const deepseekPatterns: readonly string[] = [
  String.raw`\p{N}{1,3}`,
  '[一-龥\u3040-ゟ゠-ヿ]+',
  String.raw`[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_` +
    '`{|}~][A-Za-z]+|[^\r\n' +
    String.raw`\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[` +
    '\r\n' +
    String.raw`]*|\s*[` +
    '\r\n' +
    String.raw`]+|\s+(?!\S)|\s+`,
]

/** Of gpt-oss and its kin (o200k) and of Mistral (Tekken), which tell large letters from small ones. */
function caseCutting(ending: string, digits: string): string {
  const [large, little] = [String.raw`[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]`, String.raw`[\p{Ll}\p{Lm}\p{Lo}\p{M}]`]
  const before = String.raw`[^\r\n\p{L}\p{N}]?`
  return (
    `${before}${large}*${little}+${ending}|${before}${large}+${little}*${ending}|${digits}` +
    String.raw`| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+`
  )
}

/** Of other patterns nobody knows how long they take: some take for ever on forty letters. */
export const linearPatterns: ReadonlySet<string> = new Set([...Object.keys(knownPatterns), ...deepseekPatterns])

/** Of Llama 3, Qwen and their kin. */
export function cl100k(letters: string, digits: string, lettersInClass: string = letters): string {
  return (
    String.raw`(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?${letters}+|${digits}| ?[^\s${lettersInClass}\p{N}]+[\r\n]*` +
    String.raw`|\s*[\r\n]+|\s+(?!\S)|\s+`
  )
}
