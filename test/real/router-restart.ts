/** Kills the router without warning under load, starts it again, and compares its first predictions with the engines. */
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { OpenAI } from 'openai'
import type { SpawnedRouter } from './spawned-router.js'
import { freePort, restoreOutcomes, spawnRouter } from './spawned-router.js'

export interface RestartReport {
  readonly outcomes: Readonly<Record<string, number>>
  /** Requests after the restart, in order: predicted and reported cached tokens. */
  readonly rows: readonly Asked[]
}

export async function killAndCompare(engineUrls: readonly string[], prompts: number): Promise<RestartReport> {
  const folder = mkdtempSync(join(tmpdir(), 'warmroute-real-'))
  const place = { port: await freePort(), folder, engineUrls }
  let router: SpawnedRouter | undefined
  try {
    router = await spawnRouter(place)
    const workers: string[] = []
    for (let prompt = 0; prompt < prompts; prompt++) workers.push((await askOnce(router, prompt)).worker)
    await router.saved()
    const load = [loadOn(router, 1_000), loadOn(router, 2_000)]
    while (load.some((it) => it.answered < 3)) await new Promise((resolve) => setTimeout(resolve, 5))
    router.kill()
    await Promise.all(load.map((it) => it.ended))
    router = await spawnRouter(place)
    const outcomes = await restoreOutcomes(router.url)
    const rows: Asked[] = []
    // Backwards, since the last ones are still held, and from whoever has them: where it would be sent is another question.
    for (let prompt = prompts - 1; prompt >= 0; prompt--) rows.push(await askOnce(router, prompt, workers[prompt]))
    return { outcomes, rows }
  } finally {
    router?.kill()
    rmSync(folder, { recursive: true })
  }
}

/** One request after the other, until one fails. */
export function loadOn(router: { readonly url: string }, first: number): { answered: number; ended: Promise<void> } {
  const load = { answered: 0, ended: Promise.resolve() }
  load.ended = (async () => {
    for (;;) {
      await askOnce(router, first + load.answered)
      load.answered++
    }
  })().catch(() => undefined)
  return load
}

export interface Asked {
  readonly worker: string
  readonly predicted: number
  readonly reported: number
}

/** One answer to a long prompt with this number in it; from this worker, if one is named. */
export async function askOnce({ url }: { readonly url: string }, number: number, worker?: string): Promise<Asked> {
  const ai = new OpenAI({ baseURL: `${url}/v1`, apiKey: 'none', maxRetries: 0 })
  const model = (await ai.models.list()).data[0]!.id
  const content = `You know all about number ${number}. `.repeat(30)
  const headers = worker === undefined ? {} : { 'x-dynamo-worker-instance-id': worker }
  const { data, response } = await ai.chat.completions
    .create({ model, messages: [{ role: 'user', content }], max_tokens: 80, temperature: 0 }, { headers })
    .withResponse()
  return {
    worker: response.headers.get('x-warmroute-worker-id')!,
    predicted: Number(response.headers.get('x-warmroute-cached-tokens')),
    reported: data.usage!.prompt_tokens_details?.cached_tokens ?? 0,
  }
}
