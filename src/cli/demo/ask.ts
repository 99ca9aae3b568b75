/** One streamed question to a gateway, as a client sees it: when the first token came, and what the engine reported. */
import type { Agent } from 'undici'
import { request } from 'undici'
import type { ChatMessage } from './chats.js'

export interface Asked {
  readonly text: string
  readonly firstTokenMs: number
  /** Between two tokens, the longest; 0 where there is only one. */
  readonly longestGapMs: number
  readonly promptTokens: number
  /** By the engine's own account. */
  readonly cachedTokens: number
  /** By the router, before the request was sent. */
  readonly predictedTokens: number
}

interface Chunk {
  readonly choices?: readonly { readonly delta?: { readonly content?: string | null } }[]
  readonly usage?: {
    readonly prompt_tokens: number
    readonly prompt_tokens_details?: { readonly cached_tokens?: number } | null
  } | null
}

export interface Question {
  readonly url: string
  readonly model: string
  readonly messages: readonly ChatMessage[]
  readonly answerTokens: number
  readonly agent: Agent
  readonly signal: AbortSignal
}

/** Rejects when the gateway refuses or the stream breaks. */
export async function ask({ url, model, messages, answerTokens, agent, signal }: Question): Promise<Asked> {
  const startedMs = performance.now()
  const { statusCode, headers, body } = await request(`${url}/v1/chat/completions`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({
      model,
      messages,
      max_tokens: answerTokens,
      stream: true,
      stream_options: { include_usage: true },
    }),
    dispatcher: agent,
    signal,
    headersTimeout: 30_000,
    bodyTimeout: 30_000,
  })
  if (statusCode !== 200) throw new Error(`the gateway answered ${statusCode}: ${(await body.text()).slice(0, 200)}`)
  let firstTokenMs: number | undefined
  let tokenAtMs: number | undefined
  let longestGapMs = 0
  let text = ''
  let usage: Chunk['usage']
  for await (const chunk of chunksOf(body)) {
    const content = chunk.choices?.[0]?.delta?.content ?? ''
    if (content !== '') {
      const now = performance.now()
      firstTokenMs ??= now - startedMs
      if (tokenAtMs !== undefined) longestGapMs = Math.max(longestGapMs, now - tokenAtMs)
      tokenAtMs = now
    }
    text += content
    usage = chunk.usage ?? usage
  }
  return {
    text,
    firstTokenMs: firstTokenMs ?? performance.now() - startedMs,
    longestGapMs,
    promptTokens: usage?.prompt_tokens ?? 0,
    cachedTokens: usage?.prompt_tokens_details?.cached_tokens ?? 0,
    predictedTokens: Number(headers['x-warmroute-cached-tokens'] ?? 0),
  }
}

async function* chunksOf(body: AsyncIterable<Uint8Array>): AsyncGenerator<Chunk> {
  const decoder = new TextDecoder()
  let rest = ''
  for await (const bytes of body) {
    const lines = (rest + decoder.decode(bytes, { stream: true })).split('\n')
    rest = lines.pop()!
    for (const line of lines) if (line.startsWith('data: {')) yield JSON.parse(line.slice(6)) as Chunk
  }
}
