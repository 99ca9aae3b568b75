/** The gateway as it is served, in a process of its own, whose code is loaded as the command loads it. */
import { compileAtOnce } from '../../src/cli/begin.js'

compileAtOnce()
await import('./measured-gateway.js')
