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
