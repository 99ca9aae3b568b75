/**
 * Who reads what a command says may leave before it ends: `| head -1`, a terminal that was closed, a collector of logs that
 * is restarted. No gateway ends with its streams for that, and nobody is shown a stack.
 */

/** What is said from then on is lost. Anything but a reader that left, such as a full disk, makes the status 1. */
export function outliveReaders(...outputs: readonly NodeJS.WriteStream[]): void {
  for (const output of outputs)
    output.on('error', ({ code }: NodeJS.ErrnoException) => {
      if (code !== 'EPIPE' && code !== 'EIO') process.exitCode = 1
    })
}

/** Settles when nobody reads any more, which is noticed at the next word. */
export function readerLeft(output: NodeJS.WriteStream): Promise<void> {
  return new Promise((resolve) => output.once('error', () => resolve()))
}
