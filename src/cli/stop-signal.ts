/**
 * Settles with the first signal that asks the program to end. A terminal that is closed asks so too, often twice, as its
 * shell repeats it: that is still one wish. A second SIGINT or SIGTERM, whichever came first, ends the program at once.
 */
export function stopSignal(): Promise<NodeJS.Signals> {
  return new Promise((resolve) => {
    const stop = (signal: NodeJS.Signals): void => {
      process.off('SIGINT', stop).off('SIGTERM', stop)
      resolve(signal)
    }
    process.on('SIGINT', stop).on('SIGTERM', stop).on('SIGHUP', stop)
  })
}
