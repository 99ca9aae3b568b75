/** When `serve` says who is there: once at the start, and of those who were not there then, once they are. */
import type { AddressReport } from './assemble/assembly-options.js'
import type { Assembly } from './assemble/assembly.js'
import { startTable } from './start-table.js'

/** How long a table waits for events, so that it shows what holds a moment later. */
const settleMs = 2_000
/** A timer can wait no longer. */
const foreverMs = 2 ** 31 - 1

type Say = (line: string) => void

/** Settles when every engine was looked at, and what is not exact yet has had its moment to become so. */
export async function settled(assembly: Assembly): Promise<void> {
  await assembly.looked()
  await assembly.until((reports) => reports.every((report) => !report.verdict || isSettled(report)), settleMs)
}

/** Whoever has joined by now is in the first table, and whoever has not is named under it. Settles when it is over. */
export async function showWorkers(assembly: Assembly, say: Say): Promise<void> {
  const first = assembly.reports()
  const shown = new Set(first.filter(({ verdict }) => verdict).map(({ workerId }) => workerId))
  write(startTable(first), say)
  const isNew = ({ workerId, verdict, isJoining }: AddressReport): boolean =>
    verdict !== undefined && !isJoining && !shown.has(workerId)
  for (;;) {
    await assembly.until((reports) => reports.some(isNew), foreverMs)
    await assembly.until((reports) => reports.every(isAtRest), settleMs) // those who come together are shown together
    if (assembly.isOver) return
    const all = assembly.reports()
    const late = all.filter(isNew)
    for (const { workerId } of late) shown.add(workerId)
    if (late.length > 0) write(startTable(late, all), say)
  }
}

function write(table: readonly string[], say: Say): void {
  for (const line of ['', ...table, '']) say(line)
}

function isAtRest(report: AddressReport): boolean {
  return report.verdict ? !report.isJoining && isSettled(report) : report.state === 'dismissed'
}

/** No event would change it. */
function isSettled({ verdict, facts }: AddressReport): boolean {
  const isKnown = verdict?.mode === 'exact' || verdict?.mode === 'load-only'
  return isKnown || verdict?.fix !== undefined || facts?.generates?.value === false
}
