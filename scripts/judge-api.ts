/** What every package entry must be: few names, each with a sentence and an example that shows it. Pure, so that tests can feed it. */
import type { ApiName } from './api-surface.js'

/** More names than this and an entry is a drawer, not a door. */
export const namesMax = 25

export function judgeSurface(entry: string, surface: readonly ApiName[]): string[] {
  const complaints: string[] = []
  if (surface.length === 0) complaints.push(`${entry} exports nothing that can be found`)
  if (surface.length > namesMax) complaints.push(`${entry} exports ${surface.length} names, at most ${namesMax}`)
  for (const { name, summary, example } of surface) {
    if (summary === undefined) complaints.push(`${entry}: ${name} has no sentence that says what it is`)
    if (example === undefined) complaints.push(`${entry}: ${name} has no @example`)
    else if (!new RegExp(`\\b${name}\\b`).test(example))
      complaints.push(`${entry}: the @example of ${name} does not show it`)
  }
  return complaints
}

/** The source of each entry of `package.json` that has types. */
export function entrySources(packageJson: string): { readonly name: string; readonly source: string }[] {
  const { exports } = JSON.parse(packageJson) as { exports: Record<string, string | { types: string }> }
  return Object.entries(exports).flatMap(([name, target]) =>
    typeof target === 'string'
      ? []
      : [{ name, source: target.types.replace(/^\.\/dist\//, 'src/').replace(/\.d\.ts$/, '.ts') }],
  )
}
