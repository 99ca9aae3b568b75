/**
 * Tests over real sockets wait for what happens, not for how long it takes: a second, `vi.waitFor`'s own limit, is little on a
 * machine that does other things besides.
 */
import { vi } from 'vitest'

const { waitFor } = vi
vi.waitFor = (callback, options) =>
  waitFor(callback, typeof options === 'number' ? options : { timeout: 10_000, ...options })
