import { expect, it } from 'vitest'
import { TextCache } from './text-cache.js'

it.each(['', 'adapter', '好 👩', '\ufeffafter a mark', `\ufeff${'long '.repeat(80)}`])('reads %j as it is', (text) => {
  const cache = new TextCache()
  const bytes = new TextEncoder().encode(`__${text}__`)
  for (let time = 0; time < 2; time++) expect(cache.read(bytes, 2, bytes.length - 4)).toBe(text)
})
