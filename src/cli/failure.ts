/** What a failed command says to a person, and to the shell. */
import { CommanderError } from 'commander'
import { WarmrouteError } from '../core/protocol/index.js'

export interface Failure {
  /** Nothing where it has been said already. */
  readonly words: string
  /** 2: the flags or settings are wrong, and starting again will not help; 1: anything else. */
  readonly status: 0 | 1 | 2
}

export function failureOf(error: unknown): Failure {
  if (error instanceof CommanderError) return { words: '', status: error.exitCode === 0 ? 0 : 2 } // help is one of these
  const wall = wallOf(error)
  if (wall) return failed(1, wall)
  if (isFileError(error)) return failed(2, error.message)
  if (!(error instanceof WarmrouteError)) return failed(1, error instanceof Error ? String(error.stack) : String(error))
  const { issues, reason } = error.details as { issues?: readonly { message: string }[]; reason?: string }
  const lines = issues && issues.length > 0 ? issues.map(({ message }) => message) : [reason ?? error.message]
  return failed(error.code === 'WR_INVALID_CONFIG' || error.code === 'WR_INVALID_ARGUMENT' ? 2 : 1, ...lines)
}

/** What a system says of an address that cannot be listened on. */
interface SystemError {
  readonly code?: string
  readonly address?: string
  readonly port?: number
  readonly hostname?: string
  readonly syscall?: string
}

/** Why nothing could be listened on, and which flag says where; undefined when something else failed. */
function wallOf(error: unknown): string | undefined {
  const { isAdmin } = (error instanceof WarmrouteError ? error.details : {}) as { isAdmin?: boolean }
  const said = (isAdmin === undefined ? error : (error as Error).cause) as SystemError
  const [hostFlag, portFlag] = isAdmin ? ['--admin-host', '--admin-port'] : ['--host', '--port']
  const { code, address, port, hostname, syscall } = said
  if (code === 'EADDRINUSE')
    return port === undefined
      ? `${address} is taken. Stop what listens there, or choose another.`
      : `port ${port} on ${address} is taken. Stop what listens there, or choose another with ${portFlag} (0 takes a free one).`
  if (code === 'EACCES' && port !== undefined)
    return `port ${port} needs more rights than this user has. Choose one above 1023 with ${portFlag}.`
  if (code === 'EADDRNOTAVAIL')
    return `${address ?? 'the address'} is no address of this machine. Choose one with ${hostFlag} (0.0.0.0 is every one).`
  if (syscall === 'getaddrinfo')
    return `no address is known for the name ${hostname} (${code}). Choose another with ${hostFlag}.`
  return undefined
}

function isFileError(error: unknown): error is Error {
  return error instanceof Error && 'code' in error && 'syscall' in error && 'path' in error
}

function failed(status: 1 | 2, ...lines: readonly string[]): Failure {
  return { words: lines.map((line) => `warmroute: ${line}`).join('\n'), status }
}
