/** A tokenizer whose steps we have no twins of, as the library encodes with it. Slow to make and to use: for a thread. */
import { Tokenizer } from '@huggingface/tokenizers'

interface Library {
  encode(text: string, options: object): { readonly ids: readonly number[] }
}

// The package's types leave out file endings, which this module resolution does not follow.
const LibraryClass = Tokenizer as unknown as new (file: object, config: object) => Library

export class LibraryTokenizer {
  readonly #library: Library

  /** Throws where the library has no code for a step of the file, either. */
  constructor(file: object, config: object) {
    this.#library = new LibraryClass(file, config)
    this.encode('a') // some of it is looked at only when it is used
  }

  /** Without special tokens around them. */
  encode(text: string): Uint32Array {
    return Uint32Array.from(this.#library.encode(text, { add_special_tokens: false }).ids)
  }
}
