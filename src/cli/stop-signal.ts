/**
 * Settles with the first signal that asks the program to end; a second one ends it at once, as people expect. A terminal
 * that is closed asks so too.
 */
export function stopSignal(): Promise<NodeJS.Signals> {
  return new Promise((resolve) => {
    for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.once(signal, resolve)
  })
}
