/** What can happen to conversations, and the words that they are made of. Shared by the property and the long fuzz run. */
import { prose } from '../../../bench/tokens/texts.js'

/** Words whose neighbours change their pieces: spaces that run on, half an added token, marks that compose, digits in groups. */
export const words: readonly string[] = [
  ' the',
  'ing',
  ' ',
  '  ',
  '\n',
  '\n\n',
  '\r',
  '\t',
  "'",
  "'s",
  'LL',
  '1',
  '23',
  '4567',
  '.',
  '...',
  '!<',
  '<|im_',
  '<|im_end|>',
  '<|eot_id|>',
  '<｜User｜>',
  '<|endoftext|>',
  'end|>',
  '</s>',
  '<s>',
  '</',
  '▁',
  '好',
  '你好',
  'é',
  'e\u0301',
  '\u0301',
  '👍',
  '🏽',
  '\u200d',
  'ß',
  'ſ',
  'Ж',
  '\u0000',
  '·',
  ' '.repeat(45),
  `\n${' '.repeat(60)}`,
  '\n'.repeat(50),
  '9'.repeat(40),
  '日ABC',
  `語${'X'.repeat(45)}`,
  'y',
  prose(150, 1),
  prose(400, 2),
  '    x = 1;\n',
] // prettier-ignore

export type Step =
  | { readonly kind: 'append'; readonly chat: number; readonly words: readonly string[] }
  | { readonly kind: 'edit'; readonly chat: number; readonly at: number; readonly word: string }
  | { readonly kind: 'cut'; readonly chat: number; readonly at: number }
  | { readonly kind: 'copy'; readonly chat: number; readonly from: number }

export function apply(chats: string[][], step: Step): void {
  const chat = chats[step.chat]!
  if (step.kind === 'append') chat.push(...step.words)
  else if (step.kind === 'edit')
    chat[Math.max(0, chat.length - step.at)] = step.word // near the end, where cuts are
  else if (step.kind === 'cut') chat.length = Math.max(0, chat.length - step.at)
  else chats[step.chat] = [...chats[step.from]!]
}

export const chatCount = 6

/** Long enough to be remembered from the start, and two that begin alike; then some that no other of them continues, so that many are kept and forgotten. */
export function firstChats(): string[][] {
  return [
    [prose(150, 1)],
    [prose(150, 1), '<|im_end|>'],
    [],
    [prose(700, 3)],
    [prose(700, 4), '<|eot_id|>', prose(200, 5)],
    [prose(900, 6), '</s>', '<｜User｜>', prose(150, 1), '<|endoftext|>'],
  ]
}
