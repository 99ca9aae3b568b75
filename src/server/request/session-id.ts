/** Which conversation a request belongs to, in the spellings of the agents that say so (spec/serving.md 1.8). */
import type { IncomingHttpHeaders } from 'node:http'

export interface SessionIdentity {
  readonly sessionId: string
  readonly parentSessionId?: string | undefined
  /** The last turn: nothing of it will be asked for again. */
  readonly isFinal: boolean
}

/** Longer ids are not ids. */
const sessionIdBytesMax = 256

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
  const codex = text(headers, 'thread-id')
  if (codex) return { sessionId: codex, parentSessionId: text(headers, 'x-codex-parent-thread-id'), isFinal: false }
  const openCode = text(headers, 'x-session-id')
  if (openCode) return { sessionId: openCode, parentSessionId: text(headers, 'x-parent-session-id'), isFinal: false }
  return undefined
}

function text(headers: IncomingHttpHeaders, name: string): string | undefined {
  const value = headers[name]
  if (typeof value !== 'string') return undefined
  const trimmed = value.trim()
  return trimmed === '' || Buffer.byteLength(trimmed) > sessionIdBytesMax ? undefined : trimmed
}
