/**
 * Log lines as JSON: a fixed sentence plus fields. Fields whose name says that they may hold a secret or a prompt are
 * blanked here, whoever wrote them; nobody should, and nobody has to be trusted.
 */
import type { DestinationStream, Logger } from 'pino'
import { pino } from 'pino'

export type LogLevel = 'debug' | 'info' | 'warn' | 'silent'

/** Never shown, at any of the first two depths. */
export const secretNames: readonly string[] = [
  'authorization',
  'apiKey',
  'api_key',
  'key',
  'password',
  'token',
  'prompt',
  'messages',
  'body',
]

/** In place of what is not shown. */
export const hiddenText = '[hidden]'

export function createLog(options: { readonly level?: LogLevel; readonly to?: DestinationStream } = {}): Logger {
  const settings = {
    level: options.level ?? 'info',
    base: null,
    timestamp: pino.stdTimeFunctions.isoTime,
    // An error has no fields of its own: it would be told as {}.
    serializers: { error: (error: unknown) => (error instanceof Error ? String(error) : error) },
    redact: { paths: secretNames.flatMap((name) => [name, `*.${name}`]), censor: hiddenText },
  }
  return options.to ? pino(settings, options.to) : pino(settings)
}
