// Goal: the arguments of calls as SGLang reads them. What is wanted here is what `orjson` 3.13.0 answered to the same texts.
import { expect, it } from 'vitest'
import { dumps } from '../template/spell.js'
import { readStrictly } from './strict-json.js'

it.each([
  ['{"a":123456789012345678901234567890}', '{"a": 1.2345678901234568e+29}'],
  ['{"a":18446744073709551615}', '{"a": 18446744073709551615}'],
  ['{"a":18446744073709551616}', '{"a": 1.8446744073709552e+19}'],
  ['{"a":-9223372036854775808}', '{"a": -9223372036854775808}'],
  ['{"a":-9223372036854775809}', '{"a": -9.223372036854776e+18}'],
  ['{"a":[-0.0,-0,1e-400]}', '{"a": [-0.0, 0, 0.0]}'],
  ['{"10":1.0,"2":{"b":"\\u0000"}}', '{"10": 1.0, "2": {"b": "\\u0000"}}'],
])('reads %s', (text, wanted) => {
  expect(dumps(readStrictly(text))).toBe(wanted)
})

it.each([
  '{"a":NaN}',
  '{"a":[-Infinity]}',
  '{"a":1E400}',
  '{"a":"\\ud800"}',
  '{"\\ud800":1}',
  '{"1":"\\ud800"}',
  '{"a":"\u0001"}',
  '{"a":1}\u0000',
  '\ufeff{"a":1}',
  'nope',
])('takes %j for no JSON', (text) => {
  expect(readStrictly(text)).toBeUndefined()
})
