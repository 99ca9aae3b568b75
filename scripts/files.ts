/** The few file operations that the house's own checks need. */
import { readdirSync, readFileSync as read } from 'node:fs'

/** Every file below a folder whose path matches, in a stable order, with forward slashes. */
export function globSync(folder: string, pattern: RegExp): string[] {
  return readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => `${entry.parentPath}/${entry.name}`.replaceAll('\\', '/'))
    .filter((path) => pattern.test(path))
    .sort()
}

export function readFileSync(path: string): string {
  return read(path, 'utf8')
}
