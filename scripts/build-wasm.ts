/**
 * `npm run build:wasm`: compiles the AssemblyScript kernels into TypeScript modules that carry them as base64, so that
 * nothing has to be found on a disk at run time and bundlers need no loader. `--check` compares instead of writing.
 */
import { writeFileSync } from 'node:fs'
import { readFileSync } from './files.js'
import { compileKernel, kernels } from './compile-kernel.js'

const check = process.argv.includes('--check')
let stale = 0
for (const kernel of kernels) {
  const text = compileKernel(kernel)
  if (!check) {
    writeFileSync(kernel.output, text)
    console.log(`${kernel.output}: ${text.length} characters`)
  } else if (readFileSync(kernel.output) !== text) {
    console.log(`${kernel.output} is not what ${kernel.source} compiles to; run npm run build:wasm`)
    stale++
  }
}
process.exit(stale === 0 ? 0 : 1)
