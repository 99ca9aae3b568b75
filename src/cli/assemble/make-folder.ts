/**
 * Makes a folder and what leads to it. Not `mkdir` with `recursive`: Node tries for ever where a folder exists in which none
 * can be made, such as /proc.
 */
import { mkdir, stat } from 'node:fs/promises'
import { dirname } from 'node:path'

const ownOnly = 0o700

export async function makeFolder(path: string): Promise<void> {
  if (await isFolder(path)) return
  const parent = dirname(path)
  if (parent !== path) await makeFolder(parent)
  try {
    await mkdir(path, { mode: ownOnly })
  } catch (error) {
    if (!(await isFolder(path))) throw error // somebody else may have made it meanwhile
  }
}

async function isFolder(path: string): Promise<boolean> {
  return stat(path).then(
    (found) => found.isDirectory(),
    () => false,
  )
}
