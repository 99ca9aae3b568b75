import { describe, expect, it } from 'vitest'
import { readSoakArguments } from './soak-arguments.js'

describe('the arguments of a soak', () => {
  it.each([
    { words: [], seconds: 60, seed: 1 },
    { words: ['330', '7'], seconds: 330, seed: 7 },
    { words: ['--minutes', '1.5'], seconds: 90, seed: 1 },
    { words: ['--seconds=20', '--seed', '9'], seconds: 20, seed: 9 },
    { words: ['20', '--seed', '4294967295'], seconds: 20, seed: 4_294_967_295 },
  ])('$words', ({ words, seconds, seed }) => {
    expect(readSoakArguments(words)).toEqual({ kind: 'run', seconds, seed })
  })

  it.each([
    { words: ['--minutes', 'two'], reason: "--minutes: 'two' is not a number" },
    { words: ['soon'], reason: "seconds: 'soon' is not a number" },
    { words: ['Infinity'], reason: "seconds: 'Infinity' is not a number" },
    { words: ['--seconds', ''], reason: "seconds: '' is not a number" },
    { words: ['0'], reason: 'a soak lasts longer than nothing' },
    { words: ['60', '-1'], reason: "Unknown option '-1'" },
    { words: ['60', '1.5'], reason: 'the seed 1.5 is no 32-bit number' },
    { words: ['60', '--minutes', '2'], reason: 'how long is said twice' },
    { words: ['60', '1', '2'], reason: "'2' is one word too many" },
    { words: ['--hours', '2'], reason: "Unknown option '--hours'" },
  ])('$words are refused', ({ words, reason }) => {
    expect(readSoakArguments(words)).toEqual({ kind: 'refused', reason: expect.stringContaining(reason) })
  })

  it('--help asks for help, whatever else is said', () => {
    expect(readSoakArguments(['--help', '--seed', 'x'])).toEqual({ kind: 'help' })
  })
})
