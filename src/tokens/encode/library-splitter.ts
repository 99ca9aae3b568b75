/** Runs pre-tokenizer steps that we have no twin of, through the library; each of them only cuts. */
import * as library from '@huggingface/tokenizers'
import type { Step } from '../vocabulary/tokenizer-file.js'

interface Splitter {
  pre_tokenize_text(text: string): string[]
}

// The package's types leave out file endings, which this module resolution does not follow.
const { DigitsPreTokenizer, SplitPreTokenizer } = library as unknown as Readonly<
  Record<'DigitsPreTokenizer' | 'SplitPreTokenizer', new (config: Step) => Splitter>
>

export class LibrarySplitter {
  readonly #steps: readonly Splitter[]

  constructor(steps: readonly Step[]) {
    this.#steps = steps.map((step) => {
      const Class = step.type === 'Digits' ? DigitsPreTokenizer : SplitPreTokenizer
      return new Class(step)
    })
  }

  split(text: string): string[] {
    return this.#steps.reduce((pieces, step) => pieces.flatMap((piece) => step.pre_tokenize_text(piece)), [text])
  }
}
