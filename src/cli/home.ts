/** The folder of whoever runs this, where there is one. A relative one would be a folder of wherever it was started. */
import { homedir } from 'node:os'
import { isAbsolute } from 'node:path'

/** Undefined: no home, as for a user of a container that no list of users knows. */
export function homeFolder(find: () => string = homedir): string | undefined {
  try {
    const home = find()
    return isAbsolute(home) ? home : undefined
  } catch {
    return undefined // neither `HOME` nor an entry in the list of users
  }
}
