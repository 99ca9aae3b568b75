/** What a failed command says to a person, and to the shell. */
import { WarmrouteError } from '../core/protocol/index.js'

export interface Failure {
  readonly words: string
  /** 2: the settings are wrong, and starting again will not help; 1: anything else. */
  readonly status: 1 | 2
}

export function failureOf(error: unknown): Failure {
  const { code, port, address } = error as { code?: string; port?: number; address?: string }
  if (code === 'EADDRINUSE')
    return failed(
      `port ${port} on ${address} is taken. Stop what listens there, or choose another with --port (0 takes a free one).`,
    )
  if (code === 'EACCES' && port !== undefined)
    return failed(`port ${port} needs more rights than this user has. Choose one above 1023 with --port.`)
  if (!(error instanceof WarmrouteError)) return failed(error instanceof Error ? String(error.stack) : String(error))
  const { issues, reason } = error.details as { issues?: readonly { message: string }[]; reason?: string }
  const lines = issues && issues.length > 0 ? issues.map(({ message }) => message) : [reason ?? error.message]
  return { ...failed(...lines), status: error.code === 'WR_INVALID_CONFIG' ? 2 : 1 }
}

function failed(...lines: readonly string[]): Failure {
  return { words: lines.map((line) => `warmroute: ${line}`).join('\n'), status: 1 }
}
