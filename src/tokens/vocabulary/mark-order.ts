/**
 * Long runs of marks in the order that Unicode gives them. `normalize` moves each mark to its place among those before it, one by one, so a run takes
 * as long as the square of its length: one of 130,000 takes seconds. Here a run is counted out in one go, and what is ordered already is
 * normalised in time.
 */

/** Marks in a row that `normalize` may order itself: no language has more, and Unicode's stream-safe format allows as many. */
const runMax = 30

/** One mark of each combining class, from the lowest class to the highest. A test finds any mark that has none here. */
const classes: readonly string[] = [
  ...'334 93c 3099 94d 5b0 5b1 5b2 5b3 5b4 5b5 5b6 5b7 5b8 5b9 5bb 5bc 5bd 5bf 5c1 5c2 fb1e 64b 64c 64d 64e 64f 650 651 652'.split(
    ' ',
  ),
  ...'670 711 c55 c56 e38 e48 eb8 ec8 f71 f72 f74 321 1dce 31b 302a 316 59a 302e 1d16d 5ae 300 315 35c 35d 345'.split(
    ' ',
  ),
].map((hex) => String.fromCodePoint(Number.parseInt(hex, 16)))

/** 1 for code units that are marks, or halves of what may be one: of emoji the first half is none. */
const isMarkUnit = new Uint8Array(0x1_0000).fill(1, 0xd800, 0xd83c).fill(1, 0xdb40, 0xdb41).fill(1, 0xdc00, 0xe000)
const everyUnit = Uint16Array.from({ length: 0x1_0000 }, (_, unit) => (unit >= 0xd800 && unit < 0xe000 ? 0 : unit))
for (const { index } of new TextDecoder('utf-16le').decode(everyUnit).matchAll(/\p{M}/gu)) isMarkUnit[index] = 1

/** Whether `normalize` may take long: for the length of a text, and no longer. */
export function hasLongMarkRun(text: string): boolean {
  let run = 0
  for (let index = 0; index < text.length; index++) {
    run = isMarkUnit[text.charCodeAt(index)] === 1 ? run + 1 : 0
    if (run > runMax) return true
  }
  return false
}

/** A text of the same normal form in which long runs of marks are decomposed and in order. */
export function orderMarks(text: string): string {
  const parts: string[] = []
  let from = 0
  for (let at = 0; at < text.length; at++) {
    if (isMarkUnit[text.charCodeAt(at)] === 0) continue
    const start = at
    while (at < text.length && isMarkUnit[text.charCodeAt(at)] === 1) at++
    if (at - start <= runMax) continue
    parts.push(text.slice(from, start), ordered(text.slice(start, at)))
    from = at
  }
  parts.push(text.slice(from))
  return parts.join('')
}

function ordered(run: string): string {
  const parts: string[] = []
  const byPlace: string[][] = classes.map(() => [])
  let isWaiting = false
  const flush = (): void => {
    if (isWaiting)
      for (const marks of byPlace) {
        parts.push(marks.join(''))
        marks.length = 0
      }
    isWaiting = false
  }
  for (const char of run) {
    for (const { mark, place } of placedMarks(char)) {
      if (place < 0) {
        flush()
        parts.push(mark)
      } else {
        byPlace[place]!.push(mark)
        isWaiting = true
      }
    }
  }
  flush()
  return parts.join('')
}

interface Placed {
  readonly mark: string
  /** Of its class among all; -1: nothing moves past it. */
  readonly place: number
}

/** Of every mark that was met. */
const known = new Map<string, readonly Placed[]>()

function placedMarks(char: string): readonly Placed[] {
  const placed = known.get(char)
  if (placed) return placed
  if (!/\p{M}/u.test(char)) return [{ mark: char, place: -1 }]
  const fresh = Array.from(char.normalize('NFD'), (mark) => ({ mark, place: placeOf(mark) }))
  known.set(char, fresh)
  return fresh
}

/** Found out by what `normalize` does: it exchanges two marks where the first is of a higher class. */
function placeOf(mark: string): number {
  const isExchanged = (a: string, b: string): boolean => (a + b).normalize('NFD') !== a + b
  if (!isExchanged(mark, classes[0]!) && !isExchanged(classes.at(-1)!, mark)) return -1
  let low = 0
  let high = classes.length - 1
  while (low < high) {
    const middle = (low + high) >>> 1
    if (isExchanged(mark, classes[middle]!)) low = middle + 1
    else high = middle
  }
  return low
}
