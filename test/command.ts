/**
 * How a test starts `warmroute` as a process of its own. A whole run has built the package just before and starts that, as a user
 * does; compiling the sources for each process would cost it a second of a core. Tests run by themselves take the sources, since
 * what is built may be old.
 */
import { fileURLToPath } from 'node:url'

/** Set by `scripts/test.ts` for its tests, once it has built. */
export const isBuilt: boolean = process.env['TESTS_HAVE_BUILT'] === 'true'

/** What Node is given before a module of ours. */
export const flags: readonly string[] = isBuilt ? [] : ['--import', 'tsx']

/** A module of the package, by its name under `src`, such as `cli/main`. */
export function moduleFile(name: string): string {
  return fileURLToPath(new URL(isBuilt ? `../dist/${name}.js` : `../src/${name}.ts`, import.meta.url))
}

/** What Node is given to run the command. */
export const command: readonly string[] = [...flags, moduleFile('cli/main')]
