// Goal: `serve` takes the first source of tokens that serves: the configured path, what lies on this machine, the hub where that is allowed, the engine.
// Each that is broken falls to the next, and the reason is shown. What happens where none serves is in sources.sockets.test.ts.
// Method: all of them at once before a simulated engine, broken one after the other.
import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import type { Server } from 'node:http'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { gunzipSync } from 'node:zlib'
import { afterAll, afterEach, describe, expect, it } from 'vitest'
import { loadTokenizer } from '../sim/index.js'
import type { Served } from './serve.js'
import { serveOfEachTest } from './serve-house.case.js'

const { engine, start } = serveOfEachTest()
const tinyllama = fileURLToPath(new URL('../../test/fixtures/tinyllama/', import.meta.url))
const folders: string[] = []
afterAll(() => folders.forEach((it) => rmSync(it, { recursive: true })))
let hub: Server | undefined
afterEach(() => new Promise<void>((resolve) => (hub ? hub.close(() => resolve()) : resolve())))

/** A folder with the files of a tokenizer, or with one that cannot be read. */
function tokenizerIn(folder: string, isBroken: boolean): string {
  mkdirSync(folder, { recursive: true })
  cpSync(tinyllama, folder, { recursive: true })
  rmSync(join(folder, 'tokenizer.json.gz'))
  const whole = gunzipSync(readFileSync(join(tinyllama, 'tokenizer.json.gz')))
  writeFileSync(join(folder, 'tokenizer.json'), isBroken ? whole.subarray(0, 1000) : whole)
  return folder
}

function newFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), 'warmroute-order-'))
  folders.push(folder)
  return folder
}

async function hubThat(answers: 'has it' | 'fails'): Promise<{ readonly url: string; readonly asked: string[] }> {
  const asked: string[] = []
  const files = tokenizerIn(newFolder(), false)
  hub = createServer((request, response) => {
    asked.push(request.url!)
    const name = request.url!.replace('/org/tiny/resolve/main/', '')
    if (answers === 'fails') response.writeHead(500).end()
    else if (['tokenizer.json', 'tokenizer_config.json', 'chat_template.jinja'].includes(name))
      response.writeHead(200).end(readFileSync(join(files, name)))
    else response.writeHead(404).end()
  })
  await new Promise<void>((resolve) => hub!.listen(0, '127.0.0.1', resolve))
  return { url: `http://127.0.0.1:${(hub.address() as AddressInfo).port}`, asked }
}

interface Shown {
  readonly source: string
  readonly from?: string
  readonly tried: readonly string[]
}

async function shown({ address }: Served): Promise<Shown> {
  const response = await fetch(`${address.url}/models/${encodeURIComponent('org/tiny')}/tokenizer`)
  expect(response.status).toBe(200)
  return (await response.json()) as Shown
}

async function promptTokens({ address }: Served): Promise<number> {
  const response = await fetch(`${address.url}/v1/completions`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ model: 'org/tiny', prompt: 'Hello world', max_tokens: 1 }),
  })
  const { usage } = (await response.json()) as { readonly usage: { readonly prompt_tokens: number } }
  return usage.prompt_tokens
}

const noJson = 'tokenizer.json is no JSON'
const cases = [
  { says: 'all are there', broken: [], source: 'configured', tried: [] },
  { says: 'the configured one is broken', broken: ['configured'], source: 'hub-cache', tried: [noJson] },
  {
    says: 'what lies on this machine is broken, too',
    broken: ['configured', 'cache'],
    source: 'hub',
    tried: [noJson, noJson],
  },
  {
    says: 'and the hub fails',
    broken: ['configured', 'cache', 'hub'],
    source: 'engine',
    tried: [noJson, noJson, 'the hub answered 500'],
  },
] as const

describe('the first source that serves is taken', () => {
  it.each(cases)('$says: $source', async ({ broken, source, tried }) => {
    const isBroken = (name: string): boolean => (broken as readonly string[]).includes(name)
    const path = tokenizerIn(newFolder(), isBroken('configured'))
    const cache = newFolder()
    tokenizerIn(join(cache, 'models--org--tiny', 'snapshots', 'abc'), isBroken('cache'))
    const { url, asked } = await hubThat(isBroken('hub') ? 'fails' : 'has it')
    const serving = await engine({
      models: ['org/tiny'],
      root: 'org/tiny',
      tokenizer: loadTokenizer(tokenizerIn(newFolder(), false)),
    })
    const words = ['--tokenizer', path, '--hub-cache', cache, '--hub-download', '--hub-endpoint', url]
    const served = await start([serving.url, ...words])
    expect(await shown(served)).toMatchObject({ source, tried })
    expect(asked.length > 0).toBe(isBroken('configured') && isBroken('cache'))
    expect(await promptTokens(served)).toBe(3)
  })

  it('a hub that was not allowed is not asked', async () => {
    const { url, asked } = await hubThat('has it')
    const serving = await engine({ models: ['org/tiny'], root: 'org/tiny' })
    const served = await start([serving.url, '--hub-cache', newFolder(), '--hub-endpoint', url])
    expect(await shown(served)).toMatchObject({ source: 'engine', tried: [] })
    expect(asked).toEqual([])
  })

  it('the folder that the engine names comes behind the configured one and before the engine', async () => {
    const root = tokenizerIn(newFolder(), false)
    const serving = await engine({ models: ['org/tiny'], root })
    const path = tokenizerIn(newFolder(), true)
    const served = await start([serving.url, '--tokenizer', path, '--hub-cache', newFolder()])
    expect(await shown(served)).toMatchObject({ source: 'folder', from: root, tried: [noJson] })
  })
})
