/** How many texts a list holds that is too long to be parsed: a batch of prompts counts as many, whatever they say. */
import { scanList } from '../scan-list.js'
import type { Steps } from '../steps.js'

const quote = 0x22

/** Of well-formed bytes. Undefined where they are no list of texts; counts no further than `countMax`. */
export function* countTexts(bytes: Buffer, start: number, end: number, countMax: number): Steps<number | undefined> {
  const items = yield* scanList(bytes, start, end, countMax)
  const first = items?.[0]
  return first && bytes[first[0]] === quote ? items.length : undefined
}
