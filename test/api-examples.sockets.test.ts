// Every example in the documentation of an exported name is a module of its own: it compiles against the entries as they
// are, runs, and prints what its comments (`// => text`) say. Some start a simulated engine, hence the sockets.
import { execFileSync } from 'node:child_process'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { dirname, join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { format } from 'node:util'
import { afterAll, expect, it, vi } from 'vitest'
import { readSurface } from '../scripts/api-surface.js'
import { readFileSync } from '../scripts/files.js'

const entries = { warmroute: 'src/index.ts', 'warmroute/core': 'src/core/index.ts', 'warmroute/sim': 'src/sim.ts' }

/** What a newcomer reads first; it is held to the same. */
const readme = [...readFileSync('README.md').matchAll(/```ts\n([\s\S]*?)```/g)].map((match) => match[1]!)

const ofNames = Object.entries(entries).flatMap(([entry, source]) =>
  readSurface(source, readFileSync, '.ts').map(({ name, example }) => ({
    name: `${entry}: ${name}`,
    code: example ?? '',
  })),
)
const examples = [...ofNames, ...readme.map((code, at) => ({ name: `README ${at + 1}`, code }))]

/** Inside the repository, so that types and packages are found as they are for the sources. */
const folder = mkdtempSync('.examples-')
afterAll(() => rmSync(folder, { recursive: true }))
const files = examples.map(({ code }, at) => {
  const file = join(folder, `example-${at}.ts`)
  writeFileSync(file, `${withSources(code)}\nexport {}\n`)
  return file
})

it('have one each, and as a package would be used', () => {
  expect(examples.length).toBeGreaterThan(50)
  for (const { name, code } of examples) expect(code, name).toMatch(/^import .* from 'warmroute(\/\w+)?'$/m)
})

it('the one in the README is short', () => {
  expect(readme.map((code) => code.trimEnd().split('\n').length <= 20)).toEqual([true])
})

it('compile', () => {
  const options = {
    extends: '../tsconfig.json',
    compilerOptions: { noEmit: true, noUnusedLocals: false },
    include: ['*.ts'],
  }
  writeFileSync(join(folder, 'tsconfig.json'), JSON.stringify(options))
  const tsc = join(dirname(createRequire(import.meta.url).resolve('typescript/package.json')), 'bin', 'tsc')
  const run = (): Buffer => execFileSync(process.execPath, [tsc, '-p', folder], { stdio: 'pipe' })
  try {
    run()
  } catch (error) {
    expect.fail((error as { stdout: Buffer }).stdout.toString())
  }
}, 60_000)

it.each(examples.map(({ name, code }, at) => ({ name, code, file: files[at]! })))(
  '$name says what it prints',
  async ({ code, file }) => {
    const printed: string[] = []
    const log = vi.spyOn(console, 'log').mockImplementation((...parts) => void printed.push(format(...parts)))
    try {
      await import(/* @vite-ignore */ pathToFileURL(file).href)
    } finally {
      log.mockRestore()
    }
    expect(printed).toEqual([...code.matchAll(/\/\/ => (.*)$/gm)].map((match) => match[1]))
  },
)

function withSources(code: string): string {
  return code.replaceAll(/from '(warmroute(?:\/\w+)?)'/g, (_, entry: keyof typeof entries) => {
    return `from '../${entries[entry].replace(/\.ts$/, '.js')}'`
  })
}
