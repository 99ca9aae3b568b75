/** Turns one AssemblyScript source into the text of a generated module. */
import { spawnSync } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

export interface Kernel {
  readonly source: string
  readonly output: string
  /** The constant that carries the bytes. */
  readonly constant: string
  readonly flags: readonly string[]
}

export const kernels: readonly Kernel[] = [
  {
    source: 'assembly/hash.ts',
    output: 'src/core/hashing/kernel.generated.ts',
    constant: 'hashKernel',
    flags: [],
  },
  {
    source: 'assembly/index.ts',
    output: 'src/core/index/core.generated.ts',
    constant: 'indexCore',
    flags: [],
  },
]

/** No runtime and no garbage collector: the kernels manage their memory themselves. */
const commonFlags = ['-O3', '--noAssert', '--runtime', 'stub', '--enable', 'simd', '--enable', 'bulk-memory']

export function compileKernel(kernel: Kernel): string {
  const folder = mkdtempSync(join(tmpdir(), 'warmroute-wasm-'))
  try {
    const file = join(folder, 'kernel.wasm')
    const run = spawnSync('asc', [kernel.source, '--outFile', file, ...commonFlags, ...kernel.flags], {
      encoding: 'utf8',
    })
    if (run.status !== 0) throw new Error(`${kernel.source} does not compile:\n${run.stdout}${run.stderr}`)
    const binary = readFileSync(file)
    return `/** Made from ${kernel.source} by \`npm run build:wasm\`; do not edit. ${binary.length} bytes of WebAssembly. */\nexport const ${kernel.constant}: string =\n  '${binary.toString('base64')}'\n`
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}
