import { expect, it } from 'vitest'
import type { ModelStatus } from '../../tokens/index.js'
import { TokenNews } from './token-news.js'

const files: ModelStatus = { source: 'configured', from: '/models/m', encoder: 'own', reason: undefined, tried: [] }
const none: ModelStatus = {
  source: 'none',
  from: undefined,
  encoder: 'none',
  reason: 'no source knows the model',
  loadOnly: 'no-tokenizer',
  tried: ['tokenizer.json is no JSON', 'the hub answered 500'],
}
const engine: ModelStatus = { ...files, source: 'engine', from: 'http://gpu1', encoder: 'engine' }
const failing: ModelStatus = { ...files, loadOnly: 'chat: template-failed' }

/** What is said of a model that is looked at once a minute. */
function said(statuses: readonly ModelStatus[], everyMs = 60_000, dialect?: 'sglang'): unknown[] {
  const lines: unknown[] = []
  const write = (level: string) => (fields: object) => void lines.push({ level, ...fields })
  const news = new TokenNews({ debug() {}, info: write('info'), warn: write('warn') })
  statuses.forEach((status, at) => news.look('m', dialect, status, at * everyMs))
  return lines
}

const known = { level: 'info', model: 'm' }
const unknown = { level: 'warn', model: 'm' }

it('says once where tokens come from, and when they come from elsewhere', () => {
  expect(said([files, files, { ...files }, engine])).toEqual([
    { ...known, source: 'configured', from: '/models/m' },
    { ...known, source: 'engine', from: 'http://gpu1' },
  ])
})

it('says what speaks against tokens that are used all the same', () => {
  const trouble = 'of a text the engine makes 35 tokens and this tokenizer 36'
  expect(said([{ ...files, trouble }])).toEqual([{ ...known, source: 'configured', from: '/models/m', trouble }])
})

it('says why a model has no tokens, and when that is over', () => {
  const { reason: why } = none
  const tried = 'tokenizer.json is no JSON; the hub answered 500'
  expect(said([none, none, files, failing, failing, files])).toEqual([
    { ...unknown, reason: 'no-tokenizer', why, source: 'none', tried },
    { ...known, source: 'configured', from: '/models/m' },
    { ...unknown, reason: 'chat: template-failed', source: 'configured', from: '/models/m' },
    { ...known, source: 'configured', from: '/models/m' },
  ])
})

it('says what an engine is in trouble with', () => {
  const trouble = 'the engine answered 404 to /tokenize'
  expect(said([{ ...engine, loadOnly: 'source-failed', reason: 'it was not started with a flag', trouble }])).toEqual([
    { ...unknown, reason: 'source-failed', why: trouble, source: 'engine', from: 'http://gpu1' },
  ])
})

it('a model that changes all the time fills no log, and the last word stands', () => {
  const flapping = Array.from({ length: 1000 }, (_, at) => (at % 2 === 0 ? files : failing))
  const lines = said(flapping, 100) // 100 seconds
  expect(lines.length).toBeLessThanOrEqual(6 + 10)
  const settled = said([...flapping, ...Array.from({ length: 200 }, () => files)], 100)
  expect(settled.at(-1)).toMatchObject(known)
})

it('of workers of another kind it says only what they lack', () => {
  const kind = { engine: 'sglang' }
  expect(said([files, failing, files], 60_000, 'sglang')).toEqual([
    { ...unknown, ...kind, reason: 'chat: template-failed', source: 'configured', from: '/models/m' },
    { ...known, ...kind, source: 'configured', from: '/models/m' },
  ])
})
