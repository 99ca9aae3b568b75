/** The id of a response from the first bytes of its answer: engines write it first, in a whole answer and in `response.created`. */
export class ResponseIdReader {
  readonly #onId: (id: string) => void
  #text = ''
  /** Found, or not where it should be: nothing more is looked at. */
  isDone = false

  constructor(onId: (id: string) => void) {
    this.#onId = onId
  }

  push(buffer: Buffer, start: number, end: number): void {
    this.#text += buffer.toString('latin1', start, Math.min(end, start + charactersMax - this.#text.length))
    const id = idPattern.exec(this.#text)?.[1]
    this.isDone = id !== undefined || this.#text.length >= charactersMax
    // It is kept, and a part of a text would keep all of the text with it.
    if (id !== undefined) this.#onId(Buffer.from(id, 'latin1').toString('latin1'))
  }
}

const charactersMax = 1024
/** At the very front of an object, or of the event's `response`. */
const idPattern = /(?:^\s*|"response"\s*:\s*)\{\s*"id"\s*:\s*"([\x21\x23-\x5b\x5d-\x7e]{1,256})"/
