/** An engine as a thing to be measured: completions of token ids as streams, every one with a deadline. */
import { request } from 'undici'
import { WarmrouteError } from '../../core/protocol/index.js'
import { HttpProbe } from '../../engines/index.js'
import type { Probe, ProbeAnswer } from './measure.js'

export interface EngineProbeOptions {
  readonly url: string
  readonly apiKey: string | undefined
  readonly model: string
  readonly answerTimeoutMs: number
  readonly signal: AbortSignal
}

export interface ModelFacts {
  readonly name: string
  readonly contextMax: number | undefined
}

/** The first served model. Throws where nobody answers as an engine does. */
export async function askModel(url: string, apiKey: string | undefined, signal: AbortSignal): Promise<ModelFacts> {
  const path = '/v1/models'
  const { status, text } = await fetchText(
    url + path,
    { headers: headersOf(apiKey) },
    AbortSignal.any([signal, AbortSignal.timeout(10_000)]),
  )
  if (status !== 200) throw protocol(url, `${path} was answered with status ${status}: ${text.slice(0, 200)}`)
  const model = readJson<{ data?: { id?: unknown; max_model_len?: unknown }[] }>(text)?.data?.[0]
  if (typeof model?.id !== 'string') throw protocol(url, `${path} names no model`)
  return { name: model.id, contextMax: typeof model.max_model_len === 'number' ? model.max_model_len : undefined }
}

export function createEngineProbe(options: EngineProbeOptions): Probe {
  const { url, apiKey, model, signal } = options
  const http = new HttpProbe({ baseUrl: url, apiKey, signal })
  return {
    nowMs: () => performance.now(),
    async cachedTotal() {
      const metrics = await http.get('/metrics')
      return metrics?.status === 200 ? readCachedTotal(metrics.text) : undefined
    },
    async complete(prompt, outputTokens) {
      const body = {
        model,
        prompt,
        max_tokens: outputTokens,
        temperature: 0,
        ignore_eos: true,
        stream: true,
        stream_options: { include_usage: true },
      }
      const deadline = AbortSignal.any([signal, AbortSignal.timeout(options.answerTimeoutMs)])
      const call = { method: 'POST', headers: headersOf(apiKey), body: JSON.stringify(body), signal: deadline } as const
      try {
        const reply = await request(`${url}/v1/completions`, call)
        if (reply.statusCode !== 200)
          throw protocol(
            url,
            `a completion of ${prompt.length} token ids was answered with status ${reply.statusCode}: ${(await reply.body.text()).slice(0, 200)}`,
          )
        return await readStream(reply.body, prompt.length, url)
      } catch (cause) {
        throw unreachable(url, cause)
      }
    },
  }
}

/** Over all ranks; undefined where no engine that we know counts here. */
export function readCachedTotal(metrics: string): number | undefined {
  let total: number | undefined
  for (const [, value] of metrics.matchAll(
    /^(?:vllm:prefix_cache_hits_total|sglang:cached_tokens_total)(?:\{[^}]*\})? (\S+)/gm,
  ))
    total = (total ?? 0) + Number(value)
  return total
}

async function readStream(body: AsyncIterable<Buffer>, promptTokens: number, url: string): Promise<ProbeAnswer> {
  const tokenAtMs: number[] = []
  let usage: { prompt_tokens?: number; prompt_tokens_details?: { cached_tokens?: number } | null } | undefined
  let rest = ''
  const decoder = new TextDecoder()
  for await (const piece of body) {
    const nowMs = performance.now()
    rest += decoder.decode(piece, { stream: true })
    const lines = rest.split('\n')
    rest = lines.pop()!
    for (const line of lines) {
      if (!line.startsWith('data:') || line.includes('[DONE]')) continue
      const event = readJson<{ choices?: unknown[]; usage?: typeof usage; error?: unknown }>(line.slice(5))
      if (!event || event.error !== undefined) throw protocol(url, `a stream broke off with ${line.slice(0, 200)}`)
      if (event.choices && event.choices.length > 0) tokenAtMs.push(nowMs)
      usage = event.usage ?? usage
    }
  }
  if (tokenAtMs.length === 0) throw protocol(url, 'a stream ended without a token')
  return {
    tokenAtMs,
    promptTokens: usage?.prompt_tokens ?? promptTokens,
    cachedTokens: usage?.prompt_tokens_details?.cached_tokens,
  }
}

async function fetchText(
  url: string,
  call: { headers: Record<string, string> },
  signal: AbortSignal,
): Promise<{ status: number; text: string }> {
  try {
    const reply = await request(url, { ...call, signal })
    return { status: reply.statusCode, text: await reply.body.text() }
  } catch (cause) {
    throw unreachable(url, cause)
  }
}

function headersOf(apiKey: string | undefined): Record<string, string> {
  return { 'content-type': 'application/json', ...(apiKey === undefined ? {} : { authorization: `Bearer ${apiKey}` }) }
}

function readJson<T>(text: string): T | undefined {
  try {
    const json: unknown = JSON.parse(text)
    return typeof json === 'object' && json !== null ? (json as T) : undefined
  } catch {
    return undefined
  }
}

function protocol(url: string, reason: string): WarmrouteError {
  return new WarmrouteError('WR_ENGINE_PROTOCOL', { reason: `${url}: ${reason}`, url })
}

function unreachable(url: string, cause: unknown): WarmrouteError {
  if (cause instanceof WarmrouteError) return cause
  const { name, message, code } = cause as { name?: string; message?: string; code?: string }
  if (name === 'TimeoutError')
    return new WarmrouteError('WR_ENGINE_TIMEOUT', { reason: `${url} did not answer in time`, url }, { cause })
  return new WarmrouteError(
    'WR_ENGINE_UNREACHABLE',
    { reason: `${url} cannot be reached: ${code ?? message}`, url },
    { cause },
  )
}
