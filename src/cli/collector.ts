/** How the collector is set for a process that only serves. For the command alone: a library leaves its host's alone. */
import { setFlagsFromString } from 'node:v8'

/**
 * Lets the heap grow fourfold before all of it is collected, which is the most that V8 grants by itself. V8 compares with
 * what is alive, about 30 MB here, and counts tokens and bodies that lie outside the heap: under long prompts it collected
 * everything every 16 MB, ten times a second, each time with the loop at a standstill
 * (docs/decisions/0134-what-v8-counts.md). Where the process was started with a growth of its own, that one holds.
 */
export function letHeapGrow(given: readonly string[] = process.execArgv): boolean {
  if (given.some((flag) => flag.replaceAll('_', '-').startsWith('--heap-growing-percent'))) return false
  setFlagsFromString('--heap-growing-percent=300')
  return true
}
