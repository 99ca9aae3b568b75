// Goal: a model's files are read as the engine reads them, whatever transformers it has, and nothing is called proven that it might deny.
// Method: real files; the engine is the same files, read in a way of its own.
import { copyFileSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, expect, it } from 'vitest'
import { tokenizerFolder } from '../../../bench/tokens/texts.js'
import { loadModel } from '../model/loaded-model.js'
import { ModelTokens } from '../model/model-tokens.js'
import type { Reading } from '../model/readings.js'
import { compareWithEngine } from '../parity/compare-with-engine.js'
import { TokenPool } from '../pool/pool.js'
import { tinyllamaFolder } from '../real-tokenizers.case.js'
import { loadAsEngine } from './load-as-engine.js'
import type { TokenSource } from './source.js'

const root = mkdtempSync(join(tmpdir(), 'warmroute-readings-'))
const pool = new TokenPool({ threads: 1 })
afterAll(async () => {
  await pool.close()
  rmSync(root, { recursive: true })
})

function folderOf(from: string, name: string, files: readonly string[], type: string | undefined): string {
  const folder = join(root, name)
  mkdirSync(folder)
  for (const file of files) copyFileSync(join(from, file), join(folder, file))
  if (type !== undefined) writeFileSync(join(folder, 'config.json'), JSON.stringify({ model_type: type }))
  return folder
}

const tinyFiles = ['tokenizer.json.gz', 'tokenizer_config.json', 'chat_template.jinja']
const folders = {
  TinyLlama: folderOf(tinyllamaFolder, 'tiny', tinyFiles, 'llama'),
  'TinyLlama without its type': folderOf(tinyllamaFolder, 'bare', tinyFiles, undefined),
  "DeepSeek's tokenizer of a Llama": folderOf(
    tokenizerFolder('deepseek_v3'),
    'distilled',
    ['tokenizer.json', 'tokenizer_config.json'],
    'llama',
  ),
}

const silent: TokenSource = {
  counts: undefined,
  tokenize: () => Promise.reject(new Error('it does not answer')),
} as unknown as TokenSource

interface Case {
  readonly folder: keyof typeof folders
  readonly engine: Reading | 'silent' | 'another' | 'none'
  /** The reading that is taken; undefined: none. */
  readonly wanted: Reading | undefined
  readonly exactness?: 'proven' | 'expected'
  readonly isTrouble?: boolean
}

it.each<Case>([
  { folder: 'TinyLlama', engine: 'none', wanted: 'built', exactness: 'proven' },
  { folder: 'TinyLlama', engine: 'silent', wanted: 'built', exactness: 'proven' },
  { folder: 'TinyLlama', engine: 'built', wanted: 'built', exactness: 'proven' },
  { folder: 'TinyLlama', engine: 'written', wanted: 'written', exactness: 'proven' },
  { folder: 'TinyLlama', engine: 'another', wanted: 'built', exactness: 'proven', isTrouble: true },
  { folder: 'TinyLlama without its type', engine: 'none', wanted: 'built', exactness: 'expected' },
  { folder: 'TinyLlama without its type', engine: 'silent', wanted: 'built', exactness: 'expected' },
  { folder: 'TinyLlama without its type', engine: 'built', wanted: 'built', exactness: 'proven' },
  { folder: 'TinyLlama without its type', engine: 'written', wanted: 'written', exactness: 'proven' },
  { folder: "DeepSeek's tokenizer of a Llama", engine: 'none', wanted: undefined },
  { folder: "DeepSeek's tokenizer of a Llama", engine: 'silent', wanted: undefined },
  { folder: "DeepSeek's tokenizer of a Llama", engine: 'another', wanted: undefined },
  { folder: "DeepSeek's tokenizer of a Llama", engine: 'written', wanted: 'written', exactness: 'proven' },
  { folder: "DeepSeek's tokenizer of a Llama", engine: 'switched', wanted: 'switched', exactness: 'proven' },
])('$folder, the engine: $engine', async ({ folder: name, engine, wanted, exactness, isTrouble = false }) => {
  const folder = folders[name]
  const read = new Map<ModelTokens, Reading>()
  const load = (reading: Reading): Promise<ModelTokens> => {
    const model = new ModelTokens(loadModel(folder, `${name} ${engine} ${reading}`, reading), pool)
    read.set(model, reading)
    return Promise.resolve(model)
  }
  const its = (): TokenSource => {
    if (engine === 'silent') return silent
    if (engine === 'another') return new ModelTokens(loadModel(tokenizerFolder('gpt2'), 'another'), pool)
    return new ModelTokens(loadModel(folder, `${name} engine`, engine as Reading), pool)
  }
  const theirs = engine === 'none' ? undefined : its()
  const compare = theirs && ((source: ModelTokens) => compareWithEngine(source, theirs, name))
  const loading = loadAsEngine({ load, compare }, undefined)
  if (wanted === undefined) {
    await expect(loading).rejects.toMatchObject({ code: 'WR_TOKENS_BAD_TOKENIZER' })
    return
  }
  const { source, trouble } = await loading
  expect(read.get(source)).toBe(wanted)
  expect(trouble !== undefined).toBe(isTrouble)
  expect((await source.tokenize('completions', { prompt: 'Hello there' })).exactness).toBe(exactness)
})

it('whoever does not want it any more gets nothing', async () => {
  const stop = new AbortController()
  const load = (): Promise<ModelTokens> => {
    stop.abort(new Error('not wanted'))
    return Promise.reject(new Error('ended'))
  }
  const compare = (): Promise<never> => Promise.reject(new Error('never asked'))
  await expect(loadAsEngine({ load, compare }, stop.signal)).rejects.toThrow('not wanted')
})
