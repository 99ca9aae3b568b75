import { expect, it } from 'vitest'
import type { LoadThresholds } from './thresholds.js'
import { initialThresholds, isConfigured, updateThresholds } from './thresholds.js'

it.each<[string, LoadThresholds, boolean]>([
  ['nothing set', {}, false],
  ['only the decode share', { activeDecodeBlocksThreshold: 0.85 }, true],
  ['only the prefill tokens', { activePrefillTokensThreshold: 10_000 }, true],
  ['only the prefill multiple', { activePrefillTokensThresholdFrac: 0.9 }, true],
  [
    'all three',
    { activeDecodeBlocksThreshold: 0.85, activePrefillTokensThreshold: 10_000, activePrefillTokensThresholdFrac: 0.9 },
    true,
  ],
])('is configured: %s', (_says, thresholds, expected) => {
  expect(isConfigured(thresholds)).toBe(expected)
})

it('1.1 leaves unset limits unset', () => {
  expect(initialThresholds('1.1', { activePrefillTokensThreshold: 5 })).toEqual({ activePrefillTokensThreshold: 5 })
})

it('1.0 fills unset limits with values that never bite', () => {
  expect(initialThresholds('1.0', {})).toEqual({
    activeDecodeBlocksThreshold: 1,
    activePrefillTokensThreshold: 10_000_000,
    activePrefillTokensThresholdFrac: 1.5,
  })
})

it.each([
  ['truncates to ten-thousandths', 0.12345, 0.1234],
  ['turns a negative into 0', -0.5, 0],
  ['saturates at 32 bits', 1e9, (2 ** 32 - 1) / 10_000],
  ['turns NaN into 0', Number.NaN, 0],
])('1.0 %s', (_says, given, stored) => {
  expect(initialThresholds('1.0', { activeDecodeBlocksThreshold: given }).activeDecodeBlocksThreshold).toBe(stored)
  expect(
    updateThresholds('1.0', {}, { activePrefillTokensThresholdFrac: given }).activePrefillTokensThresholdFrac,
  ).toBe(stored)
})

it.each(['1.0', '1.1'] as const)('%s changes only the fields that an update names', (version) => {
  const before = initialThresholds(version, { activeDecodeBlocksThreshold: 0.5, activePrefillTokensThreshold: 7 })
  const after = updateThresholds(version, before, { activePrefillTokensThreshold: 9 })
  expect(after).toEqual({ ...before, activePrefillTokensThreshold: 9 })
})

it('1.1 forgets a limit that is taken back', () => {
  const before = initialThresholds('1.1', { activeDecodeBlocksThreshold: 0.5, activePrefillTokensThreshold: 7 })
  expect(updateThresholds('1.1', before, { activeDecodeBlocksThreshold: null })).toEqual({
    activePrefillTokensThreshold: 7,
  })
})

it('1.0 has its own value again for a limit that is taken back, and leaves the others as they were stored', () => {
  const before = initialThresholds('1.0', { activeDecodeBlocksThreshold: 0.00035, activePrefillTokensThreshold: 7 })
  expect(before.activeDecodeBlocksThreshold).toBe(0.0003)
  expect(updateThresholds('1.0', before, { activePrefillTokensThreshold: null })).toEqual({
    activeDecodeBlocksThreshold: 0.0003, // 0.0003 * 10000 is below 3
    activePrefillTokensThreshold: 10_000_000,
    activePrefillTokensThresholdFrac: 1.5,
  })
})
