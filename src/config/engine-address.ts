/**
 * The address of an engine as every part of us uses it: routes are put behind it. People copy the base of an OpenAI client,
 * which ends in `/v1`; a path before that belongs to a proxy and stays.
 */
export function engineAddress(text: string): string | undefined {
  if (!URL.canParse(text)) return undefined
  const { protocol, search, hash } = new URL(text)
  if (!/^https?:$/.test(protocol) || search !== '' || hash !== '') return undefined
  return text.replace(/[?#]$/, '').replace(/(?:\/+v1)?\/*$/, '')
}
