// When a worker counts as busy, from the settings of `warmroute serve`.
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { serveOfEachTest } from './serve-house.case.js'

const { engine, start } = serveOfEachTest()

describe('a worker over a threshold', () => {
  it.each([
    ['is left out by itself', 'default', ['2']],
    ['is left out only when everybody is busy, as of 1.2', 'dynamo-1.2', ['1', '2']],
  ])('%s', async (_says, compat, served) => {
    const engines = [await engine({ speedup: 1 }), await engine()]
    const words = ['--router-mode', 'round-robin', '--compat', compat, '--active-prefill-tokens-threshold', '0']
    const { address } = await start([...words, ...engines.map(({ url }) => url)])
    const ask = (more: object, signal?: AbortSignal): Promise<Response> =>
      fetch(`${address.url}/v1/chat/completions`, {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify({ model: 'sim', messages: [{ role: 'user', content: 'hello' }], max_tokens: 2, ...more }),
        ...(signal ? { signal } : {}),
      })
    const leaving = new AbortController()
    const pinned = { stream: true, max_tokens: 20_000, nvext: { backend_instance_id: 1 } }
    const running = (await ask(pinned, leaving.signal)).body!.getReader()
    await running.read()
    const workers = new Set<string>()
    for (let at = 0; at < 6; at++) {
      const response = await ask({})
      workers.add(response.headers.get('x-warmroute-worker-id') ?? String(response.status))
      await response.text()
    }
    leaving.abort()
    expect([...workers].sort()).toEqual(served)
  })
})

it.each([
  ['1.1', 10],
  ['1.0', 1.5],
])('has the thresholds of 1.2 unless somebody sets them, by the rules of %s', async (monitor, frac) => {
  const words = ['--compat', 'dynamo-1.2', '--monitor', monitor, '--active-decode-blocks-threshold', '0.9']
  const { address } = await start([...words, (await engine()).url])
  expect(await (await fetch(`${address.url}/busy_threshold`)).json()).toEqual({
    thresholds: [
      {
        model: 'sim',
        active_decode_blocks_threshold: 0.9,
        active_prefill_tokens_threshold: 10_000_000,
        active_prefill_tokens_threshold_frac: frac,
      },
    ],
  })
})

it('judges each model by the rules that the file names for it', async () => {
  const engines = [await engine({ models: ['new'] }), await engine({ models: ['old'] }), await engine()]
  const folder = mkdtempSync(join(tmpdir(), 'serve-'))
  const path = join(folder, 'warmroute.yaml')
  writeFileSync(path, 'server:\n  active_decode_blocks_threshold: 0.12345\n  monitors: { old: "1.0", new: "1.1" }\n')
  const served = await start(
    engines.map(({ url }) => url),
    [],
    undefined,
    { WARMROUTE_CONFIG: path },
  )
  rmSync(folder, { recursive: true })
  const { thresholds } = (await (await fetch(`${served.address.url}/busy_threshold`)).json()) as {
    thresholds: { model: string }[]
  }
  const unset = { active_prefill_tokens_threshold: null, active_prefill_tokens_threshold_frac: null }
  // 1.0 keeps ten-thousandths, and always has all three limits.
  expect(new Map(thresholds.map(({ model, ...limits }) => [model, limits]))).toEqual(
    new Map([
      ['new', { active_decode_blocks_threshold: 0.12345, ...unset }],
      [
        'old',
        {
          active_decode_blocks_threshold: 0.1234,
          active_prefill_tokens_threshold: 10_000_000,
          active_prefill_tokens_threshold_frac: 1.5,
        },
      ],
      ['sim', { active_decode_blocks_threshold: 0.12345, ...unset }],
    ]),
  )
  await expect(start(['127.0.0.1:1', '--monitors', '{"old": "2.0"}'])).rejects.toMatchObject({
    code: 'WR_INVALID_CONFIG',
  })
})
