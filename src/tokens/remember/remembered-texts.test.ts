import { expect, it } from 'vitest'
import { randomFrom } from '../../../bench/tokens/texts.js'
import { sliceIds } from '../next-turn.js'
import { RememberedTexts } from './remembered-texts.js'
import { turnsDuring } from '../turns.case.js'

const sliceBytes = 4 * sliceIds
const noCuts = new Uint32Array(0)

function bytesOf(length: number): Uint8Array {
  const random = randomFrom(7)
  return Uint8Array.from({ length }, () => random(256))
}

it('what is looked for in slices is found as at once, and others have their turn meanwhile', async () => {
  const known = bytesOf(3 * sliceBytes)
  const around = [0, 1, 3, 4, 127, 2047, 2048, 2049]
  const lengths = [1, 2, 3].flatMap((slices) =>
    around.flatMap((it) => [slices * sliceBytes - it, slices * sliceBytes + it]),
  )
  for (const length of [0, 100, 5000, ...lengths]) {
    const texts = new RememberedTexts(64 << 20)
    const ids = new Uint32Array(1)
    texts.add({ bytes: known, ids, specialsBefore: 0, specialsAfter: 0, cuts: noCuts }, texts.find(known, false))
    const bytes = Uint8Array.from({ length }, (_, at) => known[at] ?? 1)
    if (length > 6000) bytes[length - 1000]! ^= 1
    const { result: found, turns } = await turnsDuring(() => texts.findInSlices(bytes, false))
    const expected = texts.find(bytes, false)
    expect(found.marks).toEqual(expected.marks)
    expect(found.match?.common).toBe(expected.match?.common)
    expect(found.match?.text).toBe(expected.match?.text)
    expect(turns).toBeGreaterThanOrEqual(Math.ceil(length / sliceBytes) - 1)
  }
})
