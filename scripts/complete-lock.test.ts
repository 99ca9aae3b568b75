import { expect, it } from 'vitest'
import { completeLock } from './complete-lock.js'

it('names platform packages that are mentioned but not listed, and leaves the others alone', () => {
  const listed = { version: '1.0.0' }
  const lock = completeLock({
    packages: {
      'node_modules/tool': {
        version: '1.0.0',
        dev: true,
        license: 'MIT',
        optionalDependencies: {
          'tool-linux-x64': '1.0.0',
          '@tool/darwin-arm64': '^1.0.0',
          'tool-linux-x64-musl': '1.0.0',
        },
      },
      'node_modules/tool-linux-x64': listed,
    },
  })
  expect(lock.packages['node_modules/tool-linux-x64']).toBe(listed)
  expect(lock.packages['node_modules/@tool/darwin-arm64']).toEqual({
    version: '1.0.0',
    cpu: ['arm64'],
    dev: true,
    license: 'MIT',
    optional: true,
    os: ['darwin'],
  })
  expect(lock.packages['node_modules/tool-linux-x64-musl']).toMatchObject({ libc: ['musl'], os: ['linux'] })
})
