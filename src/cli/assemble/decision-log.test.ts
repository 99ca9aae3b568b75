import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, statSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { gzipSync } from 'node:zlib'
import { afterEach, beforeEach, expect, it, vi } from 'vitest'
import type { EndedRequest } from '../../server/index.js'
import { readTrace, runExperiment } from '../../sim/index.js'
import { createMetrics } from '../../telemetry/index.js'
import { DecisionLog } from './decision-log.js'

let folder = ''
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'decisions-'))
  warnings.length = 0
})
afterEach(() => rmSync(folder, { recursive: true }))

const warnings: string[] = []
const log = { debug() {}, info() {}, warn: (_: unknown, sentence: string) => void warnings.push(sentence) }

const metrics = createMetrics()
let nowMs = 0
function openLog(bytesMax = 2 ** 20, path = join(folder, 'decisions.jsonl')): DecisionLog {
  const now = () => nowMs
  return new DecisionLog({ path, bytesMax, log, epochMs: 1_700_000_000_000, salt: 'fixed', metrics, retryMs: 50, now })
}

function ended(tokens: readonly number[], at: number, changes: Partial<EndedRequest> = {}): EndedRequest {
  const times = { startedAtMs: at, endedAtMs: at + 900, firstTokenAtMs: at + 100 }
  const decision = { workerId: 3n, workerUrl: 'http://gpu3:8000', dpRank: 0, cachedTokens: 64, waitedMs: 12.345 }
  const counts = {
    promptTokens: tokens.length,
    outputTokens: 20,
    status: 200,
    model: 'sim',
    loraName: undefined,
    cacheSalt: undefined,
    howKnown: { source: 'tokenizer', exactness: 'proven' } as const,
  }
  return { ...times, ...decision, ...counts, tokens: Uint32Array.from(tokens), ...changes }
}

const words = (count: number, from = 0): number[] => Array.from({ length: count }, (_, at) => from + at)
const rows = (path: string): Record<string, unknown>[] =>
  readFileSync(path, 'utf8')
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line) as Record<string, unknown>)

/** As the metrics page has it. */
function counted(outcome: string): number {
  const line = new RegExp(`^warmroute_decision_log_lines_total\\{outcome="${outcome}"\\} (\\d+)`, 'm')
  return Number(line.exec(metrics.registry.text())?.[1] ?? 0)
}

it('names equal tokens differently where a cache does not share them: another model, adapter or tenant', async () => {
  const decisions = openLog()
  const apart = [{}, { model: 'other' }, { loraName: 'a' }, { cacheSalt: 'a' }, { cacheSalt: 'b' }, {}]
  for (const changes of apart) decisions.add(ended(words(600), 5, changes))
  await decisions.close()
  const first = rows(join(folder, 'decisions.jsonl')).map(({ hash_ids: ids }) => (ids as number[])[0])
  expect(new Set(first).size).toBe(5)
  expect(first[5]).toBe(first[0])
})

it('writes counts, times, the decision and hashes, and nothing that was said', async () => {
  const decisions = openLog()
  decisions.add(ended(words(1100), 5))
  await decisions.close()
  const [row] = rows(join(folder, 'decisions.jsonl'))
  expect(row).toEqual({
    timestamp: 1_700_000_000_005,
    input_length: 1100,
    output_length: 20,
    hash_ids: [expect.any(Number), expect.any(Number), expect.any(Number)],
    model: 'sim',
    worker: '3',
    worker_url: 'http://gpu3:8000',
    dp_rank: 0,
    cached_tokens: 64,
    held_ms: 12.3,
    ttft_ms: 100,
    e2e_ms: 900,
    status: 200,
    tokens: 'tokenizer/proven',
  })
  for (const id of row!['hash_ids'] as number[]) expect(Number.isSafeInteger(id)).toBe(true)
})

it('says why tokens are not known, and nothing where nobody looked', async () => {
  const decisions = openLog()
  const detail = 'image_url: a picture of the client'
  decisions.add(ended(words(600), 0, { howKnown: { loadOnly: 'media-image', detail } }))
  decisions.add(ended(words(600), 1, { howKnown: undefined }))
  await decisions.close()
  const [row, silent] = rows(join(folder, 'decisions.jsonl'))
  expect(row).toMatchObject({ load_only: 'media-image' })
  expect(row).not.toHaveProperty('tokens')
  expect(JSON.stringify(row)).not.toContain('picture')
  for (const name of ['tokens', 'load_only']) expect(silent).not.toHaveProperty(name)
})

it('names equal beginnings alike, and nothing else', async () => {
  const decisions = openLog()
  decisions.add(ended(words(1100), 0))
  decisions.add(ended([...words(1024), 9, 9], 1))
  decisions.add(ended([7, ...words(1099)], 2))
  await decisions.close()
  const [first, second, third] = rows(join(folder, 'decisions.jsonl')).map((row) => row['hash_ids'] as number[])
  expect(second!.slice(0, 2)).toEqual(first!.slice(0, 2))
  expect(second![2]).not.toBe(first![2])
  expect(new Set([...first!, ...third!]).size).toBe(6)
})

it('is a trace that a replay reads, plain or gzip, from its first request on', async () => {
  const decisions = openLog()
  for (let at = 0; at < 20; at++) decisions.add(ended(words(1500, at % 2), 1000 * at))
  await decisions.close()
  const bytes = readFileSync(join(folder, 'decisions.jsonl'))
  const trace = readTrace(bytes)
  expect(trace.requests.map(({ arrivalMs }) => arrivalMs).slice(0, 3)).toEqual([0, 1000, 2000])
  expect(readTrace(gzipSync(bytes))).toEqual(trace)
  const [result] = runExperiment(trace.requests, { workers: 2, policies: ['warm'] })
  expect(result!.completed).toBe(20)
  expect(result!.reuse).toBeGreaterThan(0.8)
})

it('turns a full file over, and keeps one old one', async () => {
  const decisions = openLog(2000)
  for (let at = 0; at < 40; at++) decisions.add(ended(words(600), at))
  await decisions.close()
  const path = join(folder, 'decisions.jsonl')
  expect(statSync(`${path}.1`).size).toBeGreaterThan(1500)
  expect(statSync(path).size).toBeLessThan(2300)
  expect(decisions.written).toBe(40)
})

it('drops what a slow disk cannot take, however often the file is turned over', async () => {
  const decisions = openLog(2 ** 20)
  const long = words(512 * 1000)
  for (let at = 0; at < 700; at++) decisions.add(ended(long, at)) // no turn of the loop between them: nothing is written yet
  expect(decisions.dropped).toBeGreaterThan(0)
  await decisions.close()
  const { dropped } = decisions
  expect(decisions.written + dropped).toBe(700)
})

it('leaves out what failed, and counts what it cannot write', async () => {
  const decisions = openLog()
  decisions.add(ended(words(10), 0, { status: 503 }))
  decisions.add(ended([], 0, { tokens: undefined }))
  expect([decisions.written, decisions.dropped]).toEqual([0, 1])
  await decisions.close()
  decisions.add(ended(words(10), 0))
  expect(decisions.dropped).toBe(2)
})

it('says once that a file cannot be written, and tries it again after a while', async () => {
  const path = join(folder, 'no', 'folder.jsonl')
  const decisions = openLog(2 ** 20, path)
  for (let at = 0; at < 3; at++, nowMs += 50) decisions.add(ended(words(10), 0))
  expect(warnings).toEqual(['the decision log cannot be written'])
  expect(decisions.dropped).toBe(3)
  mkdirSync(join(folder, 'no'))
  decisions.add(ended(words(10), 0))
  await decisions.close()
  nowMs += 50
  decisions.add(ended(words(10), 0)) // after the end nothing is opened
  expect(rows(path)).toHaveLength(1)
  expect(decisions.dropped).toBe(4)
})

it.runIf(existsSync('/dev/full'))('counts what a full disk loses, and tries it again', async () => {
  const before = counted('dropped')
  const decisions = openLog(2 ** 20, '/dev/full')
  for (let at = 0; at < 3; at++) decisions.add(ended(words(10), 0))
  await vi.waitFor(() => expect(decisions.dropped).toBe(3))
  nowMs += 50
  decisions.add(ended(words(10), 0)) // opened again, and lost again
  await vi.waitFor(() => expect(decisions.dropped).toBe(4))
  expect(decisions.written).toBe(0)
  expect(counted('dropped') - before).toBe(4)
  await decisions.close()
})

it('counts in the metrics, and is for our eyes only', async () => {
  const before = counted('written')
  const decisions = openLog(2000)
  for (let at = 0; at < 20; at++) decisions.add(ended(words(600), at))
  await decisions.close()
  expect(counted('written') - before).toBe(20)
  for (const name of ['decisions.jsonl', 'decisions.jsonl.1'])
    expect(statSync(join(folder, name)).mode & 0o777).toBe(0o600)
})
