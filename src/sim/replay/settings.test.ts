import { expect, it } from 'vitest'
import { parseSweep, readSettings } from './settings.js'

it('reads settings by the names of the config file, and only those that were said', () => {
  expect(readSettings([])).toEqual({})
  expect(readSettings(['prefill_load_scale=10', 'router_queue_threshold=none', 'router_queue_policy=wspt'])).toEqual({
    prefillLoadScale: 10,
    routerQueueThreshold: undefined,
    routerQueuePolicy: 'wspt',
  })
  expect(readSettings(['overlap_score_weight=3'])).toMatchObject({ prefillLoadScale: 3 })
})

it.each([
  ['--set: unknown key "routing.prefil_load_scale"; did you mean prefill_load_scale', ['prefil_load_scale=10']],
  ['overlap_score_credit', ['overlap_score_credit=-1']],
  ['prefill_load_scale', ['prefill_load_scale=many']],
  ['expected name=value', ['prefill_load_scale']],
  ['expected name=value', ['=3']],
  ['--policy', ['policy=warm']],
])('refuses a setting and says why: %s', (text, assignments) => {
  expect(() => readSettings(assignments)).toThrow(text)
})

it('sweeps from, to and step without the noise of binary fractions', () => {
  expect(parseSweep('overlap_score_credit=0:0.4:0.1')).toEqual({
    key: 'overlap_score_credit',
    values: [0, 0.1, 0.2, 0.3, 0.4],
  })
  expect(parseSweep('prefill_load_scale=1:10:4').values).toEqual([1, 5, 9])
})

it.each([
  ['prefill_load_scale=1:10', 'expected name=from:to:step'],
  ['prefill_load_scale=1:10:0', 'expected name=from:to:step'],
  ['prefill_load_scale=5:1:1', 'gives -3 values'],
  ['prefil_load_scale=1:2:1', '--sweep: unknown key "routing.prefil_load_scale"; did you mean prefill_load_scale'],
  ['overlap_score_credit=0:2:1', '--sweep: overlap_score_credit must be'],
  ['policy=1:2:1', '--sweep policy: name policies with --policy'],
  ['prefill_load_scale=1:1000:1', 'gives 1000 values'],
])('refuses the sweep %s by the flag that was written', (text, words) => {
  expect(() => parseSweep(text)).toThrow(
    expect.objectContaining({ details: expect.objectContaining({ reason: expect.stringContaining(words) }) }),
  )
})
