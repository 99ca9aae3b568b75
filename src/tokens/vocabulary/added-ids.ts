/**
 * The ids of added tokens, as engines have them: a token that the vocabulary has keeps that id, and every other one takes the next that is
 * free. What the file says of them is not looked at: a list with a gap in it, or in another order, is numbered anew.
 */
import type { AddedTokenEntry, TokenizerFile } from './tokenizer-file.js'

/** Of two that are written alike the first counts, and one that is empty is none. */
export function numberAddedTokens({ model, added_tokens: listed = [] }: TokenizerFile): AddedTokenEntry[] {
  const { known, size } = idsOf(model.vocab)
  let next = size // also where the vocabulary has gaps
  const numbered = new Map<string, AddedTokenEntry>()
  for (const token of listed) {
    if (token.content === '' || numbered.has(token.content)) continue
    numbered.set(token.content, { ...token, id: known(token.content) ?? next++ })
  }
  return [...numbered.values()]
}

/** A unigram model has a list of pieces, whose places are their ids. */
function idsOf(vocab: unknown): { readonly known: (content: string) => number | undefined; readonly size: number } {
  if (Array.isArray(vocab)) {
    const places = new Map(
      vocab.map((piece: unknown, id) => [Array.isArray(piece) ? (piece[0] as unknown) : piece, id]),
    )
    return { known: (content) => places.get(content), size: vocab.length }
  }
  const ids = vocab as Readonly<Record<string, number>>
  const known = (content: string): number | undefined => (Object.hasOwn(ids, content) ? ids[content] : undefined)
  return { known, size: Object.keys(ids).length }
}
