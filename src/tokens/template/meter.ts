/**
 * Counts work that is one step to a template and not to a clock: printing a long list, sorting it, searching a long text. Rendering is one
 * synchronous call, so each thread renders one template at a time: whoever works for it says here what that costs, and is not handed the run.
 */
export interface Meter {
  /** See `spend`. */
  spend(cost: number): void
}

let meter: Meter | undefined

export function metered<T>(by: Meter, render: () => T): T {
  const before = meter
  meter = by
  try {
    return render()
  } finally {
    meter = before
  }
}

/** Before work of so many steps, 0.2 us each; throws where there is no time for it. Outside of a rendering nobody counts. */
export function spend(cost: number): void {
  if (meter !== undefined) meter.spend(cost)
}
