import { expect, it } from 'vitest'
import { homeFolder } from './home.js'

it.each([
  ['/home/ada', '/home/ada'],
  ['', undefined],
  ['somewhere', undefined],
])('a home of "%s" is %s', (home, folder) => {
  expect(homeFolder(() => home)).toBe(folder)
})

it('a user whom nobody knows has none', () => {
  const find = (): string => {
    throw Object.assign(new Error('uv_os_homedir returned ENOENT'), { code: 'ERR_SYSTEM_ERROR' })
  }
  expect(homeFolder(find)).toBeUndefined()
})
