/** How the collector is set for a process that only serves. For the command alone: a library leaves its host's alone. */
import { setFlagsFromString } from 'node:v8'

/**
 * By flag, how V8 is set.
 *
 * How far the heap may grow before all of it is collected: to so many percent more than what is alive. By itself V8 compares with about
 * 30 MB here, and counts tokens and bodies that lie outside the heap: under long prompts it collected everything every 16 MB, ten times a
 * second, each time with the loop at a standstill (docs/decisions/0134-what-v8-counts.md).
 *
 * How long a process must have rested before V8 gives memory back: by itself 8 s. With it go the shapes of objects that nobody has any
 * more, and all compiled code that relies on them: the first load behind a rest cost a quarter more CPU time, and is slower
 * (docs/decisions/0267-a-rest-forgets-code.md).
 */
const settings = { '--heap-growing-percent': 150, '--gc-memory-reducer-start-delay-ms': 600_000 }

/** Where the process was started with a setting of its own, that one holds. Answers with what was set. */
export function setCollector(given: readonly string[] = process.execArgv): string[] {
  const own = new Set(
    given.map((flag) =>
      flag
        .replaceAll('_', '-')
        .replace(/^--no-/, '--')
        .replace(/=.*/s, ''),
    ),
  )
  const flags = Object.entries(settings).flatMap(([flag, value]) => (own.has(flag) ? [] : [`${flag}=${value}`]))
  for (const flag of flags) setFlagsFromString(flag)
  return flags
}
