import { expect, it } from 'vitest'
import { compileKernel, kernels } from './compile-kernel.js'
import { readFileSync } from './files.js'

it.each(kernels)(
  '$source compiles to the bytes that are committed in $output',
  (kernel) => {
    expect(compileKernel(kernel) === readFileSync(kernel.output)).toBe(true) // no diff of base64 on the screen
  },
  60_000,
)
