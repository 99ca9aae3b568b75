/** `npm run build`: TypeScript to `dist/`. The WASM modules are generated sources and are committed, see `build-wasm.ts`. */
import { chmodSync, rmSync } from 'node:fs'
import { runSteps } from './run-step.js'

rmSync('dist', { recursive: true, force: true })
runSteps([{ name: 'build', command: ['tsc', '-p', 'tsconfig.build.json'] }])
chmodSync('dist/cli/main.js', 0o755)
