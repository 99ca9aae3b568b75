/**
 * Polls one TensorRT-LLM server for its KV events and hands each reply to its feed. Polling drains the server's queue, so
 * nobody else may poll; how often decides how stale the index is.
 */
import { setTimeout as pause } from 'node:timers/promises'
import { request } from 'undici'
import type { Feed } from '../../events/index.js'
import { Deadline } from '../deadline.js'

export interface PollerOptions {
  readonly baseUrl: string
  readonly feed: Feed
  readonly signal: AbortSignal
  /** For a server behind something that wants a key; the server itself has none. */
  readonly apiKey?: string | undefined
  readonly intervalMs?: number
  /** Older servers hold an empty reply back for 2 s. */
  readonly timeoutMs?: number
  readonly replyBytesMax?: number
  readonly now?: () => number
}

const replyBytesDefault = 32 << 20

/** Runs until the signal; settles then. */
export async function pollTrtllm(options: PollerOptions): Promise<void> {
  const { feed, signal } = options
  const now = options.now ?? (() => performance.now())
  let sequence = 0
  let isUp = false
  while (!signal.aborted) {
    const payload = await poll(options)
    if (payload === undefined) {
      if (isUp) feed.machine.disconnected(now())
      isUp = false
    } else {
      if (!isUp) feed.machine.connected(now())
      isUp = true
      if (payload.length > 2) feed.machine.frame(sequence++, payload, now()) // `[]` is no news
    }
    feed.machine.tick(now())
    await pause(options.intervalMs ?? 100, undefined, { signal, ref: false }).catch(() => undefined)
  }
}

async function poll(options: PollerOptions): Promise<Uint8Array | undefined> {
  const deadline = new Deadline(options.timeoutMs ?? 5000, options.signal)
  try {
    const reply = await request(`${options.baseUrl.replace(/\/$/, '')}/kv_cache_events`, {
      method: 'POST',
      headers: options.apiKey === undefined ? {} : { authorization: `Bearer ${options.apiKey}` },
      signal: deadline.signal,
    })
    const chunks: Uint8Array[] = []
    let size = 0
    for await (const chunk of reply.body as AsyncIterable<Uint8Array>) {
      size += chunk.byteLength
      if (size > (options.replyBytesMax ?? replyBytesDefault)) return undefined
      chunks.push(chunk)
    }
    return reply.statusCode === 200 ? Buffer.concat(chunks) : undefined
  } catch {
    return undefined // refused or too slow: the feed hears of it as a broken connection
  } finally {
    deadline.clear()
  }
}
