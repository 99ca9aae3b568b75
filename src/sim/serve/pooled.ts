/**
 * What a simulated model that pools makes of a prompt: numbers instead of text. Not a measure of meaning, but the same for
 * the same tokens in every process, near for prompts that share most of theirs, and of the form a real model's has.
 */

/** What a model is for; all but the first answer with numbers. `score` is a classifier with one label. */
export const simTasks = ['generate', 'embed', 'score', 'classify'] as const
export type SimTask = (typeof simTasks)[number]

/** Width of an embedding, as of the model that was recorded. */
const embeddingSize = 64
/** Labels of a classifier. */
const labelCount = 3

/** A unit vector. */
export function embeddingOf(tokens: readonly number[]): number[] {
  return unit(directionOf(tokens, embeddingSize))
}

/** One raw number per label. */
export function logitsOf(tokens: readonly number[], task: SimTask): number[] {
  return directionOf(tokens, task === 'score' ? 1 : labelCount).map((sum) => Math.fround(sum / tokens.length))
}

/** Of one label its likelihood, of several how it is shared among them. */
export function likelihoods(logits: readonly number[]): number[] {
  if (logits.length === 1) return [Math.fround(1 / (1 + Math.exp(-logits[0]!)))]
  return softmax(logits)
}

export function softmax(logits: readonly number[]): number[] {
  const largest = Math.max(...logits)
  const powers = logits.map((logit) => Math.exp(logit - largest))
  const sum = powers.reduce((total, power) => total + power, 0)
  return powers.map((power) => Math.fround(power / sum))
}

/** How alike two unit vectors are. */
export function likeness(left: readonly number[], right: readonly number[]): number {
  return Math.fround(left.reduce((sum, value, at) => sum + value * right[at]!, 0))
}

export function labelOf(numbers: readonly number[]): string {
  return `LABEL_${numbers.indexOf(Math.max(...numbers))}`
}

/** Little-endian 32-bit floats, as OpenAI's client asks for them. */
export function base64Of(numbers: readonly number[]): string {
  const bytes = Buffer.alloc(numbers.length * 4)
  for (const [at, value] of numbers.entries()) bytes.writeFloatLE(value, at * 4)
  return bytes.toString('base64')
}

/** The sum of each token's own direction. */
function directionOf(tokens: readonly number[], size: number): number[] {
  const sums = Array.from({ length: size }, () => 0)
  for (const token of tokens) {
    let state = (Math.imul(token + 1, 0x9e3779b1) ^ 0x85ebca6b) >>> 0
    for (let at = 0; at < size; at++) {
      state = (Math.imul(state ^ (state >>> 15), 0x2c1b3c6d) + 0x297a2d39) >>> 0
      sums[at]! += state / 2 ** 31 - 1
    }
  }
  return sums
}

function unit(sums: readonly number[]): number[] {
  const length = Math.sqrt(sums.reduce((total, value) => total + value * value, 0)) || 1
  return sums.map((value) => Math.fround(value / length))
}
