/** A tokenizer whose steps we have no twins of, as the library encodes with it. Slow to make and to use: for a thread. */
import { Tokenizer } from '@huggingface/tokenizers'
import { numberAddedTokens } from '../vocabulary/added-ids.js'
import type { Step, TokenizerConfigFile, TokenizerFile } from '../vocabulary/tokenizer-file.js'
import { digitsAsSplit } from './library-splitter.js'

interface Library {
  encode(text: string, options: object): { readonly ids: readonly number[] }
}

// The package's types leave out file endings, which this module resolution does not follow.
const LibraryClass = Tokenizer as unknown as new (file: object, config: object) => Library

function withDigits(step: Step): Step {
  if (step.type === 'Digits') return digitsAsSplit(step)
  const steps = step['pretokenizers'] as readonly Step[] | undefined
  return step.type === 'Sequence' && steps ? { ...step, pretokenizers: steps.map(withDigits) } : step
}

export class LibraryTokenizer {
  readonly #library: Library

  /** Throws where the library cannot encode as engines do, either. */
  constructor(file: TokenizerFile, config: TokenizerConfigFile) {
    const added = numberAddedTokens(file, config)
    const alone = added.find((token) => token.single_word)
    if (alone) throw new Error(`added token ${alone.content}, which must stand alone`) // it is found inside of words, too
    // By itself it knows those that the file lists, and by the ids that stand there.
    const steps = file.pre_tokenizer && withDigits(file.pre_tokenizer)
    this.#library = new LibraryClass({ ...file, pre_tokenizer: steps, added_tokens: added }, config)
    this.encode('a') // some of it is looked at only when it is used
  }

  /** Without special tokens around them. */
  encode(text: string): Uint32Array {
    return Uint32Array.from(this.#library.encode(text, { add_special_tokens: false }).ids)
  }
}
