// A request that was not looked at when it arrived is looked at before it is sent, in steps, for as long as somebody waits for it.
import { describe, expect, it } from 'vitest'
import { WarmrouteError } from '../../core/protocol/index.js'
import type { Worker } from '../workers/worker.js'
import { engineRequest } from './engine-request.js'
import { isHarmless, lookHarmless } from './harmless.js'
import type { Prepared } from './prepare.js'

const context = { allowedEngineFields: new Set<string>(), hop: 'h', passesAuthorization: false }
const wanted = (): void => {}

/** A prompt of so many ids, of which the last one is `last`; the model has 1,000. */
function asking(count: number, last = 0): Prepared {
  const prompt = new Uint32Array(count)
  prompt[count - 1] = last
  const model = { name: 'm', spec: { tokenizer: { idMax: 999, fillsEmptyTexts: true } } }
  const row = { path: '/v1/completions', isIdle: false }
  return { row, model, body: { prompt }, hints: {}, harmlessTo: undefined } as unknown as Prepared
}

function sentTo(engine: string, prepared: Prepared): void {
  const worker = { spec: { id: 1n, engine }, config: {}, link: {} } as unknown as Worker
  const rank = { workerId: 1n, dpRank: 0 }
  engineRequest({ context, prepared, worker, rank, requestId: 'r', headers: {}, asksForUsage: false })
}

describe('what goes to an SGLang that joined late', () => {
  it('is looked at in this turn of the loop when it is short, and once', () => {
    const prepared = asking(10)
    expect(lookHarmless('sglang', prepared, context, wanted)).toBe(undefined)
    expect(isHarmless('sglang', prepared)).toBe(true)
    const poison = asking(10, 1000)
    expect(() => lookHarmless('sglang', poison, context, wanted)).toThrow(WarmrouteError)
    expect(isHarmless('sglang', poison)).toBe(false)
  })

  it('is looked at in several turns when it is long, and may not be sent before the last', async () => {
    const prepared = asking(3_000_000)
    let turns = 0
    const looking = lookHarmless('sglang', prepared, context, () => void turns++)
    expect(looking).toBeInstanceOf(Promise)
    expect(isHarmless('sglang', prepared)).toBe(false)
    expect(() => sentTo('sglang', prepared)).toThrow('the worker cannot be reached')
    await looking
    expect(isHarmless('sglang', prepared)).toBe(true)
    expect(turns).toBeGreaterThan(8)
    await expect(lookHarmless('sglang', asking(3_000_000, 1000), context, wanted)).rejects.toMatchObject({
      code: 'WR_INVALID_TOKEN_ID',
    })
  })

  it('is looked at no longer than somebody waits for it', async () => {
    const prepared = asking(3_000_000)
    let turns = 0
    const looking = lookHarmless('sglang', prepared, context, () => {
      if (++turns === 2) throw new WarmrouteError('WR_REQUEST_CANCELLED', {})
    })
    await expect(looking).rejects.toMatchObject({ code: 'WR_REQUEST_CANCELLED' })
    expect([turns, isHarmless('sglang', prepared)]).toEqual([2, false])
  })

  it('is no concern of other engines', () => {
    expect(lookHarmless('vllm', asking(3_000_000, 1000), context, wanted)).toBe(undefined)
  })
})
