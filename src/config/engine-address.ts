const hostPattern = /^(?:\[[0-9a-f:.]+\]|[a-z0-9_](?:[a-z0-9._-]*[a-z0-9_.])?)$/i

/**
 * The address of an engine as every part of us uses it: routes are put behind it. People copy the base of an OpenAI client,
 * which ends in `/v1`; a path before that belongs to a proxy and stays.
 */
export function engineAddress(text: string): string | undefined {
  if (!URL.canParse(text)) return undefined
  const { protocol, hostname, pathname, search, hash } = new URL(text)
  if (!/^https?:$/.test(protocol) || search !== '' || hash !== '') return undefined
  // `http//gpu1` and `--` are parsed as hosts, and would be waited for.
  if (!hostPattern.test(hostname) || /\/\/./.test(pathname)) return undefined
  return text.replace(/[?#]$/, '').replace(/(?:\/+v1)?\/*$/, '')
}
