/** Where the conformance pages lie. */
import { existsSync } from 'node:fs'
import { globSync, readFileSync } from './files.js'

export const conformancePage = 'docs/reference/conformance.md'
export const conformanceFolder = 'docs/reference/conformance'

/** File name of each part with its text. */
export function conformanceParts(): Map<string, string> {
  if (!existsSync(conformanceFolder)) return new Map()
  return new Map(
    globSync(conformanceFolder, /\.md$/).map((path) => [path.slice(conformanceFolder.length + 1), readFileSync(path)]),
  )
}
