/** `warmroute serve` in front of engines that somebody else runs, and what every part of the real suite asks of it. */
import { setTimeout as pause } from 'node:timers/promises'
import OpenAI from 'openai'
import type { Served } from '../../src/cli/serve.js'
import { serve } from '../../src/cli/serve.js'

export interface RealHouse {
  readonly engineUrls: readonly string[]
  readonly url: string
  readonly model: string
  readonly openai: OpenAI
  readonly served: Served
  /** Events of what was asked so far have arrived, as far as that can be told from outside. */
  settle(): Promise<void>
  close(): Promise<void>
}

const exactMs = 20_000
/** Three idle turns of a publisher thread, which wakes ten times a second. */
const quietMs = 60

/** Every stream is asked for its usage, so that the one change that is allowed happens to all of them. */
export async function openRealHouse(engineUrls: readonly string[], words: readonly string[] = []): Promise<RealHouse> {
  const flags = ['--port', '0', '--log', 'off', '--usage-sample-every', '1', ...words]
  const served = await serve({ words: [...flags, ...engineUrls], env: {} })
  const { assembly, address } = served
  await assembly.until((reports) => reports.every(({ verdict }) => verdict?.mode === 'exact'), exactMs)
  const model = assembly.reports().find((report) => report.model !== undefined)?.model
  if (model === undefined) {
    await served.close()
    throw new Error(`no engine answers at ${engineUrls.join(', ')}`)
  }
  const batches = (): string =>
    assembly
      .reports()
      .map((report) => report.batches)
      .join()
  return {
    engineUrls,
    url: address.url,
    model,
    openai: new OpenAI({ baseURL: `${address.url}/v1`, apiKey: 'none', maxRetries: 0, timeout: 120_000 }),
    served,
    async settle() {
      let before: string
      do {
        before = batches()
        await pause(quietMs)
      } while (before !== batches())
    },
    close: () => served.close(),
  }
}

/** True as soon as `fits`; false when the time is over. */
export async function eventually(fits: () => boolean | Promise<boolean>, timeoutMs = 15_000): Promise<boolean> {
  const end = performance.now() + timeoutMs
  while (!(await fits())) {
    if (performance.now() > end) return false
    await pause(20)
  }
  return true
}
