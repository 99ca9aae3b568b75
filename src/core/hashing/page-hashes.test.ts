import { expect, it } from 'vitest'
import { computePageHashes } from './index.js'
import { vectors } from './vectors.case.js'

it.each(vectors.sglang_page_hashes)('names pages as $origin expects', (vector) => {
  const cut = { pageSize: vector.page_size, isEagle: vector.is_eagle }
  expect(computePageHashes(Uint32Array.from(vector.tokens), cut)).toEqual(vector.page_hashes)
})

it('names complete pages only', () => {
  const tokens = Uint32Array.of(1, 2, 3, 4)
  expect(computePageHashes(tokens, { pageSize: 4 })).toHaveLength(1)
  expect(computePageHashes(tokens, { pageSize: 4, isEagle: true })).toEqual([])
  expect(computePageHashes(tokens, { pageSize: 0 })).toEqual([])
  expect(computePageHashes(new Uint32Array(0), { pageSize: 1, isEagle: true })).toEqual([])
})
