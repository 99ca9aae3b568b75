/** The only I/O of this room: the text of the configuration file. */
import { readFile } from 'node:fs/promises'
import { WarmrouteError } from '../core/protocol/index.js'

const sizeMax = 4 * 2 ** 20 // a configuration is written by people

export async function readConfigFile(path: string): Promise<{ readonly path: string; readonly text: string }> {
  let text: string
  try {
    text = await readFile(path, 'utf8')
  } catch (cause) {
    const reason = `${path} cannot be read: ${(cause as Error).message}`
    throw new WarmrouteError('WR_INVALID_CONFIG', { reason, path }, { cause })
  }
  if (text.length > sizeMax)
    throw new WarmrouteError('WR_INVALID_CONFIG', { reason: `${path} is larger than ${sizeMax} characters`, path })
  return { path, text }
}
