const hostPattern = /^(?:\[[0-9a-f:.]+\]|[a-z0-9_](?:[a-z0-9._-]*[a-z0-9_.])?)$/i
const thisMachine: ReadonlySet<string> = new Set([
  'localhost',
  '127.0.0.1',
  '0.0.0.0',
  '[::1]',
  '[::]',
  '[::ffff:7f00:1]',
])

/**
 * The address of an engine as every part of us uses it: routes are put behind it. People copy the base of an OpenAI client,
 * which ends in `/v1`; a path before that belongs to a proxy and stays. One with a user or a password is refused: addresses
 * are shown and logged, and an engine's key has a place of its own.
 */
export function engineAddress(text: string): string | undefined {
  if (!URL.canParse(text)) return undefined
  const { protocol, hostname, pathname, search, hash } = new URL(text)
  if (!/^https?:$/.test(protocol) || search !== '' || hash !== '' || holdsSecret(text)) return undefined
  // `http//gpu1` and `--` are parsed as hosts, and would be waited for.
  if (!hostPattern.test(hostname) || /\/\/./.test(pathname)) return undefined
  return text.replace(/[?#]$/, '').replace(/(?:\/+v1)?\/*$/, '')
}

/** Why `engineAddress` refuses it, for people. Repeats no password. */
export function addressTrouble(text: string): string {
  const shown = text.replace(/^(?:([a-z]+:)?\/\/)?.*@/i, (_, scheme = '') => `${scheme}//***@`)
  return holdsSecret(text)
    ? `"${shown}" holds a user or a password; give the engine's key as its api_key instead`
    : `"${shown}" is not an address such as http://gpu1:8000`
}

/** The same for two addresses that reach one engine: however they are written, and by whichever name of this machine. */
export function engineIdentity(address: string): string {
  const { protocol, hostname, port, pathname } = new URL(address)
  const host = hostname.replace(/\.$/, '')
  const isHere = thisMachine.has(host) || host.endsWith('.localhost')
  return `${protocol}//${isHere ? 'localhost' : host}:${port}${pathname.replace(/\/$/, '')}`
}

function holdsSecret(text: string): boolean {
  if (!URL.canParse(text)) return false
  const { username, password } = new URL(text)
  return username !== '' || password !== ''
}
