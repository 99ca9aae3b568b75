import { createServer } from 'node:net'
import type { AddressInfo } from 'node:net'
import { once } from 'node:events'
import { expect, it } from 'vitest'
import { WarmrouteError } from '../core/protocol/index.js'
import { failureOf } from './failure.js'

it('a port that is taken is named, with what to do', async () => {
  const first = createServer().listen(0, '127.0.0.1')
  await once(first, 'listening')
  const { port } = first.address() as AddressInfo
  const second = createServer().listen(port, '127.0.0.1')
  const [error] = (await once(second, 'error')) as [Error]
  first.close()
  expect(failureOf(error)).toEqual({
    status: 1,
    words: `warmroute: port ${port} on 127.0.0.1 is taken. Stop what listens there, or choose another with --port (0 takes a free one).`,
  })
})

it.each([
  {
    says: 'a taken admin port blames the flag of that port',
    error: new WarmrouteError(
      'WR_BOOT_FAILED',
      { isAdmin: true },
      { cause: Object.assign(new Error('taken'), { code: 'EADDRINUSE', address: '127.0.0.1', port: 9 }) },
    ),
    words: /port 9 on 127\.0\.0\.1 is taken.*--admin-port/,
  },
  {
    says: 'a ZeroMQ address has no port of its own',
    error: Object.assign(new Error('taken'), { code: 'EADDRINUSE', address: 'tcp://127.0.0.1:9' }),
    words: /^warmroute: tcp:\/\/127\.0\.0\.1:9 is taken\./,
  },
  {
    says: 'an address of another machine',
    error: Object.assign(new Error(), { code: 'EADDRNOTAVAIL', address: '10.9.9.9', syscall: 'listen' }),
    words: /^warmroute: 10\.9\.9\.9 is no address of this machine\. .*--host/,
  },
  {
    says: 'a name that nobody knows',
    error: Object.assign(new Error(), { code: 'ENOTFOUND', hostname: 'nope.invalid', syscall: 'getaddrinfo' }),
    words: /^warmroute: no address is known for the name nope\.invalid \(ENOTFOUND\)\. .*--host/,
  },
])('$says', ({ error, words }) => {
  expect(failureOf(error)).toEqual({ status: 1, words: expect.stringMatching(words) as string })
})

it('a file that is not there is one line, and the flags are to blame', () => {
  const error = Object.assign(new Error("ENOENT: no such file, open '/nope'"), {
    code: 'ENOENT',
    syscall: 'open',
    path: '/nope',
  })
  expect(failureOf(error)).toEqual({ status: 2, words: "warmroute: ENOENT: no such file, open '/nope'" })
})

it('every complaint about settings has a line, and the status says that they are to blame', () => {
  const issues = [{ message: 'one' }, { message: 'two' }]
  expect(failureOf(new WarmrouteError('WR_INVALID_CONFIG', { issues }))).toEqual({
    status: 2,
    words: 'warmroute: one\nwarmroute: two',
  })
  expect(failureOf(new WarmrouteError('WR_BOOT_FAILED', { reason: 'why' }))).toEqual({
    status: 1,
    words: 'warmroute: why',
  })
})

it('anything else is shown whole', () => {
  expect(failureOf(new TypeError('odd')).words).toContain('TypeError: odd')
})
