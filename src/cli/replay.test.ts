import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, afterEach, expect, it, vi } from 'vitest'
import { replayCommand } from './replay.js'
import { replayProgress } from './replay-progress.js'

const folder = mkdtempSync(join(tmpdir(), 'replay-'))
const trace = 'test/fixtures/traces/mooncake-conversation.jsonl.gz'
afterAll(() => rmSync(folder, { recursive: true }))
afterEach(() => {
  vi.restoreAllMocks()
  process.exitCode = undefined
})

async function call(...words: string[]): Promise<{ out: string; errors: string; status: unknown }> {
  const out: string[] = []
  const errors: string[] = []
  vi.spyOn(console, 'log').mockImplementation((text: string) => void out.push(text))
  vi.spyOn(console, 'error').mockImplementation((text: string) => void errors.push(text))
  const command = replayCommand()
    .exitOverride()
    .configureOutput({ writeErr: (text) => void errors.push(text) })
  await command.parseAsync(words, { from: 'user' })
  return { out: out.join('\n'), errors: errors.join('\n'), status: process.exitCode }
}

it('writes a report with the names that scripts read, and a table', async () => {
  const json = join(folder, 'report.json')
  const flags = ['--workers', '2', '--requests', '60', '--policy', 'warm,round-robin', '--ideal', '--json', json]
  const { out } = await call(trace, ...flags, '--set', 'prefill_load_scale=2')
  expect(out).toContain('| policy |')
  expect(out).toContain('| warm prefill_load_scale=2 |')
  const report = JSON.parse(readFileSync(json, 'utf8')) as { args: unknown; results: Record<string, unknown>[] }
  expect(report.args).toMatchObject({ trace, workers: 2, requests: 60, policy: ['warm', 'round-robin'], seed: 1 })
  expect(report.results.map((result) => result['policy'])).toEqual(['warm', 'round-robin', 'ideal'])
  const spread = { mean: expect.any(Number), p50: expect.any(Number), p90: expect.any(Number), p99: expect.any(Number) }
  for (const result of report.results)
    expect(result).toMatchObject({
      ttft_ms: spread,
      itl_ms: spread,
      e2e_ms: spread,
      held_ms: spread,
      queued_ms: spread,
      reuse: expect.any(Number),
      output_tokens_per_s: expect.any(Number),
      prefill_tokens: expect.any(Number),
      imbalance: { requests: expect.any(Number), prefill_tokens: expect.any(Number) },
      workers: expect.any(Array),
    })
})

it('generates a trace by seed, saves it, and replays the saved one to the same figures', async () => {
  const saved = join(folder, 'saved.jsonl')
  const flags = ['--workers', '2', '--policy', 'dynamo']
  const made = await call('--generate', 'tenants', '--requests', '40', '--seed', '5', ...flags, '--save-trace', saved)
  expect(readFileSync(saved, 'utf8').trim().split('\n')).toHaveLength(40)
  const columns = (out: string): string[] => out.split('\n').at(-1)!.split('|')
  expect(columns((await call(saved, '--seed', '5', ...flags)).out)).toEqual(columns(made.out))
})

it('writes one page with plots', async () => {
  const html = join(folder, 'report.html')
  await call('--generate', 'chat', '--requests', '30', '--policy', 'warm,random', '--html', html)
  expect(readFileSync(html, 'utf8')).toMatch(/^<!doctype html>[\s\S]*generated chat over 8 workers[\s\S]*<svg /)
})

it('ends with status 2 and the number of the line that cannot be read', async () => {
  const bad = join(folder, 'bad.jsonl')
  writeFileSync(bad, '{"timestamp":0,"input_length":5,"output_length":1,"hash_ids":[1]}\n{"timestamp":1}\n')
  expect(await call(bad)).toMatchObject({ status: 2, errors: expect.stringContaining('trace line 2') })
})

it('says that requests were rejected, which no figure shows', async () => {
  const long = join(folder, 'long.jsonl')
  writeFileSync(long, '{"timestamp":0,"input_length":2000000,"output_length":2}\n')
  const { errors, status } = await call(long, '--policy', 'warm')
  expect(errors).toContain('note: warm: 1 of 1 requests were rejected')
  expect(status).toBeUndefined()
})

it('names the file and the line of points that cannot be used', async () => {
  const points = join(folder, 'points.jsonl')
  const words = [trace, '--requests', '5', '--engine-profile', points]
  writeFileSync(
    points,
    '{"kind":"prefill","new":16,"prefix":0,"ms":3}\n{"kind":"decode","batch":1,"context":1,"ms":-2}\n',
  )
  expect((await call(...words)).errors).toContain('points.jsonl: line 2 of the step times, a decode, lacks a usable ms')
  writeFileSync(points, '{"kind":"prefill","new":16,"prefix":0,"ms":3}\n')
  expect((await call(...words)).errors).toContain('points.jsonl: prefill points by new and prefix need at least two')
})

it('says what a sweep leaves as it is, and what it does not change', async () => {
  const flags = ['--requests', '40', '--workers', '2', '--policy', 'warm,random', '--sweep', 'prefill_load_scale=1:2:1']
  const { out, errors } = await call(trace, ...flags)
  expect(out.split('\n')).toHaveLength(2 + 2 + 1)
  expect(errors).toContain('--sweep is of warm and dynamo: random ran once')
  expect(errors).toContain('warm: prefill_load_scale made no difference') // it is a term of dynamo
})

it.each([
  ['seconds', 1_700_000_000, 'look like seconds'],
  ['microseconds', 1_700_000_000_000_000, 'look like microseconds'],
])('doubts times in %s, and counts them from the first', async (_, timestamp, words) => {
  const odd = join(folder, 'odd.jsonl')
  const json = join(folder, 'odd.json')
  const line = (at: number): string => JSON.stringify({ timestamp: at, input_length: 9, output_length: 2 })
  writeFileSync(odd, `${line(timestamp)}\n${line(timestamp + 3000)}\n`)
  expect((await call(odd, '--policy', 'random', '--json', json)).errors).toContain(words)
  const { results } = JSON.parse(readFileSync(json, 'utf8')) as { results: { duration_ms: number }[] }
  expect(results[0]!.duration_ms).toBeGreaterThan(3000)
  expect(results[0]!.duration_ms).toBeLessThan(4000)
})

it("takes the block size of Dynamo's request traces, and says so", async () => {
  const records = join(folder, 'records.jsonl')
  const json = join(folder, 'records.json')
  const record = (at: number): string =>
    JSON.stringify({
      schema: 'dynamo.request.trace.v1',
      event_type: 'request_end',
      event_time_unix_ms: at + 50,
      request: {
        request_received_ms: at,
        output_tokens: 3,
        replay: { trace_block_size: 16, input_length: 130, input_sequence_hashes: [1, 2, 3, 4, 5, 6, 7, 8, 9] },
      },
    })
  writeFileSync(records, `${record(1_700_000_000_000)}\n${record(1_700_000_004_000)}\n`)
  await call(records, '--policy', 'dynamo', '--workers', '1', '--json', json)
  const { args, results } = JSON.parse(readFileSync(json, 'utf8')) as {
    args: { trace_block_size: number }
    results: { cached_tokens: number }[]
  }
  expect(args.trace_block_size).toBe(16)
  expect(results[0]!.cached_tokens).toBe(128)
})

it('judges where reports are to go before anything runs', async () => {
  const words = [trace, '--json', join(folder, 'nowhere', 'x.json')]
  expect(await call(...words)).toMatchObject({ status: 2, errors: expect.stringContaining('cannot be written') })
})

it.each([
  ['no such file', ['nowhere.jsonl'], 'ENOENT'],
  ['no trace', [], 'name a trace'],
  ['two traces', [trace, '--generate', 'chat'], 'not both'],
  [
    'a setting nobody knows',
    [trace, '--requests', '5', '--set', 'prefil_load_scale=1'],
    'did you mean prefill_load_scale',
  ],
  ['a sweep of nothing', [trace, '--requests', '5', '--sweep', 'prefill_load_scale=3:1:1'], '--sweep'],
  ['a profile nobody knows', [trace, '--requests', '5', '--engine-profile', 'h100'], 'is none of dynamo, '],
  ['a sweep without values', [trace, '--requests', '5', '--sweep', 'policy'], 'expected name=from:to:step'],
  ['blocks that do not divide', [trace, '--requests', '5', '--block-size', '48'], 'does not divide'],
  ['a sweep that nobody knows', [trace, '--sweep', 'nosuch=1:2:1'], '--sweep: unknown key'],
  [
    'settings that nobody reads',
    [trace, '--policy', 'random', '--set', 'router_temperature=1'],
    '--set: settings are of warm and dynamo',
  ],
  [
    'a sweep that nobody reads',
    [trace, '--policy', 'random', '--sweep', 'prefill_load_scale=1:2:1'],
    '--sweep: settings are of',
  ],
  ['a block size of what is generated', ['--generate', 'chat', '--trace-block-size', '64'], 'stand for 512 tokens'],
  ['more than can be generated', ['--generate', 'chat', '--requests', '1e9'], 'at most 1000000'],
  [
    'a profile that every object has',
    [trace, '--requests', '5', '--engine-profile', 'toString'],
    'is none of dynamo, ',
  ],
  ['a fleet too large', [trace, '--requests', '5', '--workers', '1e6'], 'at most 16384'],
  ['a page over the report', [trace, '--json', '/tmp/same', '--html', '/tmp/../tmp/same'], 'that of --json'],
  ['the trace over itself', [trace, '--save-trace', `./${trace}`], 'would overwrite the trace'],
])('ends with status 2 for %s', async (_, words, text) => {
  expect(await call(...words)).toMatchObject({ status: 2, errors: expect.stringContaining(text) })
})

it.each([
  ['--workers', '0'],
  ['--policy', 'warm,best'],
  ['--generate', 'poems'],
  ['--slow', '2'],
  ['--slow', '1.5x2'],
  ['--arrival-speedup', '0'],
  ['--event-delay-ms', '-1'],
  ['--seed', '4294967296'],
])('refuses %s %s before anything runs', async (flag, value) => {
  await expect(call(trace, flag, value)).rejects.toThrow(flag)
})

it('shows rate and remaining time on a terminal, and nothing elsewhere', () => {
  const written: string[] = []
  let nowMs = 0
  const show = (isTTY: boolean) => replayProgress({ isTTY, write: (text) => written.push(text) }, () => nowMs)
  const progress = show(true)
  nowMs = 1000
  progress.tell({ label: 'warm', run: 1, runs: 2, done: 500, total: 1000 })
  nowMs = 1010
  progress.tell({ label: 'warm', run: 1, runs: 2, done: 505, total: 1000 }) // too soon after the last
  expect(written).toEqual(['\r1/2 warm: 500/1000 requests, 500/s, 3 s left\x1b[K'])
  progress.end()
  show(false).tell({ label: 'warm', run: 1, runs: 2, done: 900, total: 1000 })
  expect(written).toHaveLength(2)
})
