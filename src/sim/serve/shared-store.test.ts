import { expect, it } from 'vitest'
import { SharedStore } from './shared-store.js'

const tokens = (count: number, from = 0): number[] => Array.from({ length: count }, (_, at) => from + at)

it('finds leading blocks of what was put, whole ones, in the store of that name', () => {
  const store = SharedStore.named('one')
  store.put(tokens(40), 16)
  expect(SharedStore.named('one').find(tokens(100), 16)).toBe(32)
  expect(store.find(tokens(31), 16)).toBe(16)
  expect(store.find([9, ...tokens(40)], 16)).toBe(0)
  expect(store.find([...tokens(16), ...tokens(16, 500)], 16)).toBe(16)
  expect(SharedStore.named('two').find(tokens(100), 16)).toBe(0)
})
