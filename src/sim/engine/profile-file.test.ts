import { readFileSync } from 'node:fs'
import { expect, it } from 'vitest'
import { fitProfile } from './fit-profile.js'
import { formatEngineProfile, parseEngineProfile, prefillCoefficientsOf } from './profile-file.js'
import { dynamoProfile, h200Profile } from './timing.js'
import { parseStepTable } from './timing-table.js'

const points = readFileSync('test/fixtures/gpu/h200-llama8b-steps.jsonl', 'utf8')

it('reads what it wrote', () => {
  const text = formatEngineProfile(h200Profile, { measured: { seconds: 60 } })
  expect(parseEngineProfile(text, 'other')).toEqual(h200Profile)
  expect(JSON.parse(text)).toMatchObject({ kind: 'terms', prefill: { per_new: 0.0224 }, measured: { seconds: 60 } })
})

it('reads measured points, one of them or many', () => {
  expect(parseEngineProfile(points, 'h200.jsonl')).toMatchObject({ kind: 'table', name: 'h200.jsonl' })
  expect(parseEngineProfile('{"kind":"prefill","new":1,"prefix":0,"ms":2}', 'one')).toMatchObject({ kind: 'table' })
})

it.each([
  ['another kind', '{"kind":"magic"}', 'its kind is "magic"'],
  ['a missing coefficient', '{"kind":"terms","prefill":{"constant":1}}', 'lacks a usable prefill.per_new'],
  ['a negative one', formatEngineProfile(h200Profile).replace('6.38', '-1'), 'lacks a usable prefill.constant'],
  ['no JSON', 'milliseconds', 'line 1 of the step times is no JSON'],
  ['a bad line', `${points.trim()}\n{`, 'is no JSON object'],
])('refuses %s in words', (_, text, words) => {
  expect(() => parseEngineProfile(text, 'file')).toThrow(
    expect.objectContaining({ details: expect.objectContaining({ reason: expect.stringContaining(words) }) }),
  )
})

it('starts a router from any kind of profile', () => {
  expect(prefillCoefficientsOf(dynamoProfile)).toEqual({
    base: 16.50142,
    perToken: 1.518344e-2,
    perToken2: 4.209989e-7,
    perTokenPrefix: 0,
  })
  expect(prefillCoefficientsOf(h200Profile)).toMatchObject({ base: 6.38, perTokenPrefix: 2.065e-6 })
  const fitted = prefillCoefficientsOf({ kind: 'table', name: 'points', ...parseStepTable(points) })
  const at = (of: typeof fitted): number =>
    of.base + of.perToken * 4096 + of.perToken2 * 4096 ** 2 + of.perTokenPrefix * 4096 * 8192
  expect(Math.abs(at(fitted) / at(prefillCoefficientsOf(h200Profile)) - 1)).toBeLessThan(0.15)
})

it('fits the measured points of a GPU within 20 % on average, and never below zero', () => {
  const { profile, prefillError, decodeError } = fitProfile(parseStepTable(points), 'h200', Number.POSITIVE_INFINITY)
  expect(prefillError).toBeLessThan(0.2)
  expect(decodeError).toBeLessThan(0.2)
  for (const value of [...Object.values(profile.prefill), ...Object.values(profile.decode)])
    expect(value).toBeGreaterThanOrEqual(0)
})

it('refuses to fit next to nothing', () => {
  expect(() => fitProfile({ prefill: [], decode: [] }, 'none', 8192)).toThrow('outside of what this call accepts')
})
