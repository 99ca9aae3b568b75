import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { expect, it } from 'vitest'
import { parseEngineProfile, startSimEngine } from '../sim/index.js'
import { readCachedTotal } from './profile/engine-probe.js'
import { profileCommand, profileEngine } from './profile.js'

const options = { seconds: 3, maxContext: 2600 }

// The limits are wide because the machine may be busy; how near the fit comes without noise is in profile/measure.test.ts.
it('measures a simulated engine over HTTP and writes a profile that can be read', { timeout: 60_000 }, async () => {
  const slow = {
    kind: 'terms',
    name: 'slow',
    prefill: { constant: 20, perNew: 0.1, perNewSquared: 0, perNewTimesPrefix: 0 },
    decode: { constant: 25, perRequest: 0, perContextToken: 0 },
  } as const
  const engine = await startSimEngine({ engine: 'vllm', profile: slow, events: false })
  try {
    const { text, lines } = await profileEngine(engine.url, options)
    const { prefill, decode } = parseEngineProfile(text, 'file') as typeof slow
    const ms = prefill.constant + 2048 * (prefill.perNew + prefill.perNewSquared * 2048)
    expect(ms / (20 + 204.8)).toSatisfy((ratio: number) => ratio > 0.8 && ratio < 2)
    const stepMs = decode.constant + decode.perRequest + decode.perContextToken * 272
    expect(stepMs / 25).toSatisfy((ratio: number) => ratio > 0.8 && ratio < 2)
    expect(JSON.parse(text)).toMatchObject({ name: 'sim', measured: { engine_model: 'sim', seconds: 3 } })
    expect(lines[0]).toMatch(/^prefill ms = /)
    expect(lines[1]).toMatch(/^ {2}farthest off: -?\d+ % for \d+ new behind \d+, measured [\d.]+ ms$/)
    await expect(profileEngine(engine.url, { ...options, seconds: 1, maxContext: 200 })).rejects.toMatchObject({
      code: 'WR_INVALID_ARGUMENT',
      message: expect.stringContaining('--max-context'),
    })
    await expect(profileEngine(engine.url, { ...options, model: 'other' })).rejects.toMatchObject({
      code: 'WR_ENGINE_PROTOCOL',
      message: expect.stringContaining('status 404'),
    })
  } finally {
    await engine.close()
  }
})

it('asks nothing of an engine that pools, which a prompt could end', async () => {
  const engine = await startSimEngine({ engine: 'sglang', task: 'embed', healthMs: 1 })
  await expect(profileEngine(engine.url, options)).rejects.toMatchObject({
    code: 'WR_INVALID_ARGUMENT',
    message: expect.stringContaining('answers with numbers'),
  })
  expect((await fetch(`${engine.url}/health`)).status).toBe(200)
  await engine.close()
})

it('judges where the profile is to go before it measures anything', async () => {
  const command = profileCommand().exitOverride()
  const words = ['http://127.0.0.1:1', '--out', '/nowhere/profile.json']
  await expect(command.parseAsync(words, { from: 'user' })).rejects.toMatchObject({
    code: 'WR_INVALID_ARGUMENT',
    message: expect.stringContaining('--out /nowhere/profile.json cannot be written: ENOENT'),
  })
})

it("reads an engine's own count of cached tokens, over its ranks", () => {
  const vllm =
    'vllm:prefix_cache_hits_total{engine="0",model_name="m"} 96.0\nvllm:prefix_cache_hits_total{engine="1"} 1e3\n'
  expect(readCachedTotal(`# TYPE vllm:prefix_cache_hits_total counter\n${vllm}`)).toBe(1096)
  expect(readCachedTotal('sglang:cached_tokens_total{model_name="m"} 5.0\n')).toBe(5)
  expect(readCachedTotal('vllm:external_prefix_cache_hits_total{engine="0"} 3.0\n')).toBeUndefined()
})

it('says who does not answer, and who is no engine', async () => {
  await expect(profileEngine('127.0.0.1:1', options)).rejects.toMatchObject({ code: 'WR_ENGINE_UNREACHABLE' })
  await expect(profileEngine('ftp://gpu1', options)).rejects.toMatchObject({ code: 'WR_INVALID_CONFIG' })
  const other = createServer((_, reply) => reply.end('{}')).listen(0, '127.0.0.1')
  await new Promise((resolve) => other.once('listening', resolve))
  const { port } = other.address() as AddressInfo
  await expect(profileEngine(`127.0.0.1:${port}`, options)).rejects.toMatchObject({
    code: 'WR_ENGINE_PROTOCOL',
    message: expect.stringContaining('names no model'),
  })
  other.close()
})
