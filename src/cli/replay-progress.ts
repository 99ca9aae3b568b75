/** One line that overwrites itself: how far, how fast, how long still. Silent where nobody looks. */
export interface ProgressStep {
  readonly label: string
  readonly run: number
  readonly runs: number
  readonly done: number
  readonly total: number
}

export interface ProgressStream {
  readonly isTTY?: boolean
  write(text: string): unknown
}

/** `now` in milliseconds; handed in so that a test can turn the clock. */
export function replayProgress(
  stream: ProgressStream,
  now: () => number = () => performance.now(),
): { readonly tell: (step: ProgressStep) => void; readonly end: () => void } {
  const startMs = now()
  let saidMs = Number.NEGATIVE_INFINITY
  return {
    tell(step) {
      if (!stream.isTTY || now() - saidMs < 200) return
      saidMs = now()
      stream.write(`\r${lineOf(step, now() - startMs)}\x1b[K`)
    },
    end() {
      if (stream.isTTY) stream.write('\r\x1b[K')
    },
  }
}

function lineOf({ label, run, runs, done, total }: ProgressStep, elapsedMs: number): string {
  const doneInAll = (run - 1) * total + done
  const perMs = elapsedMs > 0 ? doneInAll / elapsedMs : 0
  const rest = perMs > 0 ? `${Math.ceil((runs * total - doneInAll) / perMs / 1000)} s left` : 'starting'
  return `${run}/${runs} ${label}: ${done}/${total} requests, ${Math.round(perMs * 1000)}/s, ${rest}`
}
