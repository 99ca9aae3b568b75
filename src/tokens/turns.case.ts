/** For tests of work that is done in slices: how many turns of the loop others have while it is awaited. */
export async function turnsDuring<T>(work: () => Promise<T>): Promise<{ readonly result: T; readonly turns: number }> {
  let turns = 0
  let isOver = false
  const count = (): void => {
    turns++
    if (!isOver) setImmediate(count)
  }
  setImmediate(count)
  try {
    const result = await work()
    return { result, turns }
  } finally {
    isOver = true
  }
}
