import { fileURLToPath } from 'node:url'
import { afterEach, expect, it } from 'vitest'
import type { SimEngine, SimEngineOptions } from '../sim/index.js'
import { parseFaults, startSimEngine } from '../sim/index.js'
import type { Examination, Finding } from './check/finding.js'
import { check, checkReport } from './check.js'

const engines: SimEngine[] = []
afterEach(async () => {
  for (const engine of engines.splice(0)) await engine.close()
})

async function examined(options: Partial<SimEngineOptions>, ...flags: string[]): Promise<Examination> {
  const engine = await startSimEngine({ engine: 'vllm', speedup: 100, ...options })
  engines.push(engine)
  const [examination] = await check({ words: [engine.url, ...flags], env: {} })
  return examination!
}

function bad({ findings }: Examination): Finding[] {
  return findings.filter(({ verdict }) => verdict === 'fail')
}

it.each<Partial<SimEngineOptions>>([{ engine: 'vllm', ranks: 2 }, { engine: 'sglang' }])(
  'a good engine passes every check: %o',
  async (options) => {
    const examination = await examined(options)
    expect(bad(examination)).toEqual([])
    const checks = examination.findings.filter(({ verdict }) => verdict === 'pass').map((it) => it.check)
    for (const name of ['event socket', 'event of a new prompt', 'same prompt again', 'replay', 'chat with tools'])
      expect(checks).toContain(name)
    expect(examination.verdict).toBe('warn') // its tokens come from the engine itself
    const report = checkReport([examination])
    expect(report.join('\n')).toContain('It will work')
    const cures = report.filter((line) => line.includes('to cure'))
    expect(cures).toEqual([...new Set(cures)]) // one cure may help against several
  },
)

it.each<{ says: string; options: Partial<SimEngineOptions>; reason: string | undefined }>([
  { says: 'a vLLM', options: {}, reason: 'responses with function calls' },
  { says: 'an SGLang', options: { engine: 'sglang' }, reason: 'responses with tools that lack a description' },
  { says: 'nothing of a vLLM that renders', options: { isScaleOut: true }, reason: undefined },
  { says: 'nothing of a vLLM that tells its template', options: { isTokenizerInfo: true }, reason: undefined },
])('names what it cannot be asked for, and the cure: $says', async ({ options, reason }) => {
  const found = (await examined(options)).findings.find((it) => it.reason.includes('cannot be asked for'))
  expect(found?.verdict).toBe(reason === undefined ? undefined : 'warn')
  if (reason === undefined) return
  expect([found!.check, found!.reason]).toEqual(['tokenizer', expect.stringContaining(reason)])
  expect(found!.reason).not.toContain('unless')
  expect(found!.fix).toContain('--tokenizer')
})

it.each([
  { reasoningParser: null, isUnknown: false },
  { reasoningParser: 'qwen3', isUnknown: false },
  { reasoningParser: 'muse', isUnknown: true },
])(
  'warns of thoughts that nobody knows, and names no cure that is none: %o',
  async ({ reasoningParser, isUnknown }) => {
    const { findings } = await examined({ engine: 'sglang', reasoningParser })
    const thoughts = findings.filter((it) => it.reason.includes('thoughts'))
    expect(thoughts.map(({ verdict, fix }) => ({ verdict, fix }))).toEqual(isUnknown ? [{ verdict: 'warn' }] : [])
  },
)

it.each<{ says: string; options: Partial<SimEngineOptions>; check: string; fix: string }>([
  {
    says: 'no events',
    options: { events: false },
    check: 'events',
    fix: '--kv-events-config',
  },
  {
    says: 'events that never arrive',
    options: { faults: parseFaults({ fault: 'drop_events', share: 1 }) },
    check: 'event of a new prompt',
    fix: '--kv-events-config',
  },
])('names what is wrong and the cure: $says', async ({ options, check: name, fix }) => {
  const examination = await examined(options)
  const found = bad(examination).find((it) => it.check === name)
  expect(found?.fix).toContain(fix)
  expect(examination.verdict).toBe('fail')
  expect(checkReport([examination]).join('\n')).toContain(`to cure "${name}"`)
})

it('an engine that does not report cached tokens is warned about, with the flag', async () => {
  const { findings } = await examined({ isCacheReported: false })
  expect(findings.find((it) => it.check === 'same prompt again')).toMatchObject({
    verdict: 'warn',
    fix: '--enable-prompt-tokens-details',
  })
})

it.each<Partial<SimEngineOptions>>([
  { engine: 'vllm', task: 'embed' },
  { engine: 'sglang', task: 'embed' }, // which a prompt would end
])('an engine that pools is not sent a prompt: %o', async (options) => {
  const { findings } = await examined(options)
  expect(findings.at(-1)).toMatchObject({ check: 'task', verdict: 'warn' })
  const [engine] = engines
  expect((await fetch(`${engine!.url}/health`)).status).toBe(200)
  expect(engine!.stats().requests).toBe(0)
})

it('an engine with a key is examined with it, and without it the key is asked for', async () => {
  const without = await examined({ apiKey: 'k' })
  expect(bad(without)).toMatchObject([{ check: 'answers', fix: '--engine-api-key <key>' }])
  expect(bad(await examined({ apiKey: 'k' }, '--engine-api-key', 'k'))).toEqual([])
})

it('the tokenizer of another model is found out by its first chat', async () => {
  const examination = await examined(
    {},
    '--tokenizer',
    fileURLToPath(new URL('../../test/fixtures/tinyllama', import.meta.url)),
  )
  const found = bad(examination).find((it) => it.check === 'plain chat')
  expect(found?.reason).toMatch(/the engine counts \d+ tokens, we count \d+/)
  expect(found?.fix).toContain('--tokenizer')
})
