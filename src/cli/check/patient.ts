/** The engine under examination: how it is asked, with a deadline on every answer. */
import { request } from 'undici'
import type { EngineFacts } from '../../engines/index.js'
import { requestControls } from '../../engines/index.js'

export interface Patient {
  readonly url: string
  readonly apiKey: string | undefined
  readonly facts: EngineFacts
  readonly model: string
  readonly ranks: number
  readonly signal: AbortSignal
}

export interface Generated {
  readonly status: number
  readonly text: string
  readonly promptTokens: number | undefined
  /** Undefined: the engine does not say. */
  readonly cachedTokens: number | undefined
}

const timeoutMs = 30_000

/** One token of an answer, from one rank. An engine that cannot be reached answers with status 0. */
export async function generate(patient: Patient, path: string, body: object, rank: number): Promise<Generated> {
  const { url, apiKey, facts, model, ranks } = patient
  const controls = requestControls({ engine: facts.kind.value, path, dpRank: ranks > 1 ? rank : undefined })
  try {
    const { statusCode: status, body: reply } = await request(url + path, {
      method: 'POST',
      headers: {
        'content-type': 'application/json',
        ...(apiKey === undefined ? {} : { authorization: `Bearer ${apiKey}` }),
        ...controls.headers,
      },
      body: JSON.stringify({ model, max_tokens: 1, temperature: 0, ...body, ...controls.fields }),
      signal: AbortSignal.any([patient.signal, AbortSignal.timeout(timeoutMs)]),
    })
    const text = await reply.text()
    return { status, text, ...(status === 200 ? usageIn(text) : nothing) }
  } catch (error) {
    return { status: 0, text: String(error), ...nothing }
  }
}

const nothing = { promptTokens: undefined, cachedTokens: undefined }

function usageIn(text: string): Pick<Generated, 'promptTokens' | 'cachedTokens'> {
  try {
    const { usage } = JSON.parse(text) as {
      usage?: { prompt_tokens?: number; prompt_tokens_details?: { cached_tokens?: number } | null }
    }
    return { promptTokens: usage?.prompt_tokens, cachedTokens: usage?.prompt_tokens_details?.cached_tokens }
  } catch {
    return nothing
  }
}
