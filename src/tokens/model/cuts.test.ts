// Goal: a text that goes on from a remembered one has the tokens that it has from nothing, whatever stands where the one ends and the other goes on.
// Method: every end with every beginning, each so long that a cut lies inside it, at every place in the stride of cuts.
import { afterAll, describe, expect, it } from 'vitest'
import { prose } from '../../../bench/tokens/texts.js'
import { TokenPool } from '../pool/pool.js'
import type { EncoderPlan } from '../vocabulary/plan.js'
import { readShared } from './loaded-model.js'
import { everyModel } from './loaded-models.case.js'
import { ModelTokens } from './model-tokens.js'

const pool = new TokenPool({ threads: 1 })
afterAll(() => pool.close())

const long = 64
const ends = [
  ' '.repeat(long),
  `\n${' '.repeat(long)}`,
  `\n\n${'\t'.repeat(long)}`,
  '\n'.repeat(long),
  '\r\n'.repeat(long / 2),
  ` \n`.repeat(long / 2),
  '\u3000'.repeat(long / 2),
  `x${'!'.repeat(long)}`,
  '9'.repeat(long),
  'word '.repeat(long / 4),
  `${'好'.repeat(long / 2)}`,
  `<|im_end|><｜User｜><|eot_id|></s>${' '.repeat(long)}`,
  '<|im_en',
  '<｜Use',
  '</',
  'e',
  '\u0301'.repeat(3),
  '▁'.repeat(long / 4),
]
const beginnings = [
  '\n',
  ' \n',
  '\r',
  'x',
  ' x',
  '  x',
  '\t',
  '!',
  '1',
  "'s",
  '/',
  'd|>',
  'r｜>',
  's>',
  '\u0301',
  '好',
  '▁',
  '<|endoftext|>',
]

describe.each(everyModel('cuts'))('$name', ({ loaded, uncachedAsAsked: uncached }) => {
  it.each([true, false])(
    'goes on from every end with every beginning, special tokens around it: %s',
    async (isWrapped) => {
      const model = new ModelTokens(loaded, pool, { cacheBytes: 1 << 20 })
      let place = 0
      for (const end of ends) {
        for (const beginning of beginnings) {
          const start = `${prose(130 + (place++ % 48), 1)}.\n` // another place in the stride each time
          const first = start + end
          const second = first + beginning
          expect([...(await model.encode(first, isWrapped))], first).toEqual([...uncached(first, isWrapped)])
          expect([...(await model.encode(second, isWrapped))], second).toEqual([...uncached(second, isWrapped)])
        }
      }
      expect(model.counts.texts.hits).toBeGreaterThan(ends.length * beginnings.length)
    },
  )

  it.each([{ turnUnitsMax: 100 }, { loopBytesMax: 0 }])('goes on in steps, and in a thread: %o', async (options) => {
    const model = new ModelTokens(loaded, pool, options)
    const first = prose(3000, 1)
    const edited = `${first.slice(0, 2600)}7${first.slice(2601)}`
    for (const isWrapped of [true, false])
      for (const text of [first, first + prose(900, 2), `${first}7${prose(900, 3)}`, edited])
        expect([...(await model.encode(text, isWrapped, { deadlineMs: 60_000 }))]).toEqual([
          ...uncached(text, isWrapped),
        ])
    expect(model.counts.texts.hits).toBeGreaterThanOrEqual(4)
  })

  // Where a text goes on with what changes its last pieces from afar: a run of white space that a line end takes in, a mark that moves
  // to the letter before a run of others, an added token whose last character comes late.
  it('goes on from what was not over yet, at every place in the stride of cuts', async () => {
    const { addedTokens } = JSON.parse(readShared(loaded.plan)) as EncoderPlan
    const longest = addedTokens.map(({ content }) => content).reduce((a, b) => (b.length > a.length ? b : a))
    const pairs = [
      [`x\n${' '.repeat(long)}`, '\n'],
      [`x\r\n${'\t'.repeat(long)}`, '\n'],
      [`s${'\u0306'.repeat(24)}`, '\u0327'],
      [longest.slice(0, -1), longest.slice(-1)],
    ] as const
    for (const [end, beginning] of pairs) {
      for (let place = 0; place < 48; place++) {
        // A cut lies at byte 98, where sections or words are cut at all; the next one may be 48 bytes later, inside of `end`.
        const first = `${'ee '.repeat(33)}${'e'.repeat(place)}${end}`
        const second = first + beginning
        const model = new ModelTokens(loaded, pool, { cacheBytes: 1 << 20 }) // what is near a remembered text is not remembered
        await model.encode(first, false)
        expect([...(await model.encode(second, false))], second).toEqual([...uncached(second, false)])
      }
    }
  })
})
