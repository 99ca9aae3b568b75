/** Which conversation a request belongs to, in the spellings of the agents that say so (spec/serving.md 1.8). */
import type { IncomingHttpHeaders } from 'node:http'
import { parseUnkeptJson } from '../../core/protocol/index.js'

export interface SessionIdentity {
  readonly sessionId: string
  readonly parentSessionId?: string | undefined
  /** The last turn: nothing of it will be asked for again. */
  readonly isFinal: boolean
}

/** Longer ids are not ids. */
const sessionIdBytesMax = 256
const metadataBytesMax = 8 * 1024

export function sessionIdentity(headers: IncomingHttpHeaders): SessionIdentity | undefined {
  const own = text(headers, 'x-dynamo-session-id')
  if (own)
    return {
      sessionId: own,
      parentSessionId: text(headers, 'x-dynamo-parent-session-id'),
      isFinal: headers['x-dynamo-session-final'] === 'true',
    }
  const claude = text(headers, 'x-claude-code-session-id')
  if (claude) {
    const agent = text(headers, 'x-claude-code-agent-id')
    const parent = text(headers, 'x-claude-code-parent-agent-id')
    return {
      sessionId: agent ? `${claude}:${agent}` : claude,
      parentSessionId: agent ? (parent ? `${claude}:${parent}` : claude) : undefined,
      isFinal: false,
    }
  }
  const codex = codexThread(headers)
  if (codex) return codex
  const openCode = text(headers, 'x-session-id')
  if (openCode) return { sessionId: openCode, parentSessionId: text(headers, 'x-parent-session-id'), isFinal: false }
  return undefined
}

/** Codex names its thread in a header, and both threads in what it says of the turn. */
function codexThread(headers: IncomingHttpHeaders): SessionIdentity | undefined {
  const turn = turnMetadata(headers['x-codex-turn-metadata'])
  const sessionId = text(headers, 'thread-id') ?? plain(turn['thread_id'])
  if (!sessionId) return undefined
  const parentSessionId = text(headers, 'x-codex-parent-thread-id') ?? plain(turn['parent_thread_id'])
  return { sessionId, parentSessionId, isFinal: false }
}

function turnMetadata(value: string | string[] | undefined): Readonly<Record<string, unknown>> {
  if (typeof value !== 'string' || value.length > metadataBytesMax) return {}
  try {
    const turn = parseUnkeptJson(value)
    return typeof turn === 'object' && turn !== null && !Array.isArray(turn) ? turn : {}
  } catch {
    return {} // a header that cannot be read is ignored
  }
}

function text(headers: IncomingHttpHeaders, name: string): string | undefined {
  return plain(headers[name])
}

function plain(value: unknown): string | undefined {
  if (typeof value !== 'string') return undefined
  const trimmed = value.trim()
  if (trimmed === '' || Buffer.byteLength(trimmed) > sessionIdBytesMax) return undefined
  return /[^\x20-\x7e\xa0-\xff]/.test(trimmed) ? undefined : trimmed // engines are told it in a header
}
