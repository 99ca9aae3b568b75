/** What the demo's users say: conversations over a few shared system prompts, the same ones for the same seed. */

export interface ChatMessage {
  readonly role: 'system' | 'user' | 'assistant'
  readonly content: string
}

export interface Chat {
  readonly system: string
  readonly questions: readonly string[]
}

/** Each product has a long system prompt of its own, as agents have, shared by all who chat with it. */
const products = 8
const nouns = ['invoice', 'branch', 'harbour', 'contract', 'engine', 'garden', 'signal', 'ticket', 'window', 'archive']
const verbs = ['explain', 'compare', 'rewrite', 'check', 'summarise', 'extend', 'price', 'translate']
const systemSentences = 300
/** A question is a paragraph. */
const questionParts = 20

/** Numbers from 0 to below 1, the same for the same seed. */
export function seededDraw(seed: number): () => number {
  let state = seed >>> 0
  return () => {
    state = (state + 0x6d2b79f5) >>> 0
    let mixed = Math.imul(state ^ (state >>> 15), state | 1)
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61)
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32
  }
}

export function createChat(draw: () => number): Chat {
  const product = Math.floor(draw() * products)
  const turns = 8 + Math.floor(draw() * 5)
  return {
    system: systemPrompt(product),
    questions: Array.from({ length: turns }, () => sentence(draw, questionParts)),
  }
}

function systemPrompt(product: number): string {
  const draw = seededDraw(1000 + product)
  const rules = Array.from({ length: systemSentences }, () => sentence(draw, 3)).join(' ')
  return `You are the assistant of product ${product}. ${rules}`
}

function sentence(draw: () => number, parts: number): string {
  const part = (): string => `${pick(verbs, draw)} the ${pick(nouns, draw)}`
  return `Please ${Array.from({ length: parts }, part).join(', ')}.`
}

function pick(words: readonly string[], draw: () => number): string {
  return words[Math.floor(draw() * words.length)]!
}
