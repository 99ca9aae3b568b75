/** The version that `package.json` says; it lies two folders above, in a clone as in an installed package. */
import { readFileSync } from 'node:fs'

export function ownVersion(): string {
  const text = readFileSync(new URL('../../package.json', import.meta.url), 'utf8')
  return (JSON.parse(text) as { version: string }).version
}
