import fc from 'fast-check'
import { expect, it } from 'vitest'
import { stepBytes } from '../scan-fields.js'
import type { CarriedIds } from './read-ids.js'
import { idsMax, readIds } from './read-ids.js'

function read(text: string): { readonly ids: CarriedIds | undefined; readonly steps: number } {
  const before = '{"prompt":'
  const bytes = new TextEncoder().encode(`${before}${text}}`)
  const reading = readIds(bytes, before.length, bytes.length - 1)
  for (let steps = 1; ; steps++) {
    const step = reading.next()
    if (step.done) return { ids: step.value, steps }
  }
}

/** The obvious way. */
function parsed(text: string): readonly number[] | readonly (readonly number[])[] | undefined {
  let value: unknown
  try {
    value = JSON.parse(text)
  } catch {
    return undefined
  }
  if (isIds(value)) return value
  return Array.isArray(value) && value.length > 0 && value.every(isIds) ? (value as number[][]) : undefined
}

function isIds(value: unknown): value is number[] {
  const isId = (it: unknown): boolean => typeof it === 'number' && Number.isInteger(it) && it >= 0 && it < 2 ** 32
  return Array.isArray(value) && value.length > 0 && value.every(isId)
}

function plain(ids: CarriedIds | undefined): unknown {
  return JSON.stringify(ids instanceof Uint32Array ? [...ids] : ids?.map((it) => [...it]))
}

// Goal: what JSON.parse takes for token ids is taken, and nothing else. Method: both on the same texts, right and wrong.
it('reads what JSON.parse reads, and refuses what it refuses', () => {
  const id = fc.oneof(
    fc.nat(300_000).map(String),
    fc.constantFrom(
      '0',
      '4294967295',
      '4294967296',
      '1.0',
      '1e3',
      '-1',
      '-0',
      '01',
      '1.5',
      '2E1',
      '""',
      'null',
      '[1]',
      '',
      '9'.repeat(40),
    ),
  )
  const space = fc.constantFrom('', '', ' ', '\n', '\t ')
  const list = fc
    .array(
      fc.tuple(space, id, space).map((it) => it.join('')),
      { maxLength: 6 },
    )
    .map((ids) => `[${ids.join(',')}]`)
  const batch = fc.array(list, { maxLength: 4 }).map((lists) => `[${lists.join(' ,')}]`)
  fc.assert(
    fc.property(fc.oneof(list, batch), (text) => {
      expect(plain(read(text).ids)).toEqual(JSON.stringify(parsed(text))) // printed, since there -0 is 0
    }),
    { numRuns: 3000 },
  )
})

it('reads a million of them in steps', () => {
  const ids = Array.from({ length: 1_000_000 }, (_, at) => (at * 7919) % 151_643)
  const text = JSON.stringify(ids)
  const { ids: got, steps } = read(text)
  expect(Buffer.from((got as Uint32Array).slice().buffer).equals(Buffer.from(Uint32Array.from(ids).buffer))).toBe(true)
  expect(steps).toBe(Math.ceil(text.length / stepBytes))
})

it('takes no more than any model does', () => {
  expect(read(`[${'1,'.repeat(idsMax - 1)}1]`).ids).toHaveLength(idsMax)
  expect(read(`[${'1,'.repeat(idsMax)}1]`).ids).toBeUndefined()
  expect(read(`[${'[1],'.repeat(4096)}[1]]`).ids).toBeUndefined()
})

it('takes more steps for what takes longer to read', () => {
  const { ids, steps } = read(`[${'1.0,'.repeat(5000)}7]`)
  expect(ids).toHaveLength(5001)
  expect(steps).toBe(6)
})
