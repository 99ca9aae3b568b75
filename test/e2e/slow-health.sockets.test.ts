// SGLang answers `/health` from the loop that computes, after a second at best: a slow answer alone says nothing of a worker that moves.
import { afterEach, expect, it } from 'vitest'
import type { SimHouse } from './sim-house.js'
import { openSimHouse } from './sim-house.js'

let house: SimHouse | undefined

afterEach(async () => {
  await house?.close()
  house = undefined
})

const isOut = (): boolean => house!.gateway.workers()[0]!.is_quarantined

async function until(what: () => boolean): Promise<void> {
  const end = performance.now() + 10_000
  while (!what()) {
    expect(performance.now()).toBeLessThan(end)
    await new Promise((resolve) => setTimeout(resolve, 5))
  }
}

it('is left out while it is slow and silent, and serves while anything of it moves', async () => {
  const health = { intervalMs: 20, timeoutMs: 300 }
  house = await openSimHouse(['sglang'], { health }, { speedup: 1, healthMs: 1_000_000 })
  await until(isOut)

  const events = setInterval(() => house!.gateway.noteProgress(1n), 10) // of requests that others sent it
  await until(() => !isOut())
  const body = { model: 'sim', prompt: 'tell me', max_tokens: 200, ignore_eos: true, stream: true }
  const response = await fetch(`${house.url}/v1/completions`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify(body),
  })
  expect(response.status).toBe(200)
  clearInterval(events)

  const startMs = performance.now()
  const seen: boolean[] = []
  for await (const _ of response.body!) seen.push(isOut())
  expect(performance.now() - startMs).toBeGreaterThan(2 * health.timeoutMs) // it was looked at in vain meanwhile
  expect(seen.filter(Boolean)).toEqual([])

  await until(isOut)
})
