import { expect, it } from 'vitest'
import { table } from './table.js'

const head = ['', 'check', 'what was found']
const rows = [
  ['pass', 'engine', 'vllm 0.32.0'],
  ['warn', 'tokenizer', 'the engine is asked for tokens, which costs a call'],
]

it('columns are as wide as their widest cell, and nothing trails', () => {
  expect(table(head, rows)).toEqual([
    '      check      what was found',
    'pass  engine     vllm 0.32.0',
    'warn  tokenizer  the engine is asked for tokens, which costs a call',
  ])
})

it('where the terminal is narrower, words of the last column go on below themselves', () => {
  expect(table(head, rows, 44)).toEqual([
    '      check      what was found',
    'pass  engine     vllm 0.32.0',
    'warn  tokenizer  the engine is asked for',
    '                 tokens, which costs a call',
  ])
})

it('a word that is longer than its column stands alone and whole', () => {
  const address = `http://${'a'.repeat(60)}`
  expect(table(['a', 'b'], [['x', `see ${address} for more`]], 30)).toEqual([
    'a  b',
    'x  see',
    `   ${address}`,
    '   for more',
  ])
})

it('a terminal that is too narrow for any words still gets all of them', () => {
  expect(table(head, rows, 5).join(' ').split(/\s+/).sort()).toEqual(table(head, rows).join(' ').split(/\s+/).sort())
})
