/** What Node warns of while something is done, such as listeners that pile up. */
import { setImmediate as nextTurn } from 'node:timers/promises'

export async function warningsDuring(work: () => Promise<unknown>): Promise<string[]> {
  const warnings: string[] = []
  const note = ({ name, message }: Error): void => void warnings.push(`${name}: ${message}`)
  process.on('warning', note)
  try {
    await work()
    await nextTurn() // they are told a moment later
    return warnings
  } finally {
    process.off('warning', note)
  }
}
