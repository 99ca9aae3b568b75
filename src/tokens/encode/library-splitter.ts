/** Runs pre-tokenizer steps that we have no twin of, through the library; each of them only cuts. */
import * as library from '@huggingface/tokenizers'
import type { Step } from '../vocabulary/tokenizer-file.js'

interface Splitter {
  pre_tokenize_text(text: string): string[]
}

/** Numbers of every kind, as engines cut them out; the library knows only those of ASCII. */
export function digitsAsSplit({ individual_digits: areSplit }: Step): Step {
  const pattern = { Regex: areSplit === true ? String.raw`\p{N}` : String.raw`\p{N}+` }
  return { type: 'Split', pattern, behavior: 'Isolated', invert: false }
}

// The package's types leave out file endings, which this module resolution does not follow.
const { SplitPreTokenizer } = library as unknown as { readonly SplitPreTokenizer: new (config: Step) => Splitter }

export class LibrarySplitter {
  readonly #steps: readonly Splitter[]

  constructor(steps: readonly Step[]) {
    this.#steps = steps.map((step) => new SplitPreTokenizer(step.type === 'Digits' ? digitsAsSplit(step) : step))
  }

  split(text: string): string[] {
    return this.#steps.reduce((pieces, step) => pieces.flatMap((piece) => step.pre_tokenize_text(piece)), [text])
  }
}
