/** Chooses a row by its cost. The random draw is an argument: the same costs and draw give the same row. */

/** The cheapest row. Ties go to the draw, not to the first row: otherwise low worker ids fill up first. */
export function pickLowest(costs: Float64Array, count: number, draw: number): number {
  let lowest = costs[0]!
  let first = 0
  let ties = 1
  for (let row = 1; row < count; row++) {
    const cost = costs[row]!
    if (cost < lowest) {
      lowest = cost
      first = row
      ties = 1
    } else if (cost === lowest) ties++
  }
  if (ties === 1) return first
  let skip = Math.floor(draw * ties)
  for (let row = first; row < count; row++) if (costs[row] === lowest && skip-- === 0) return row
  return first
}

/**
 * Samples a row, the cheaper the likelier. Costs are measured by their own range: at temperature 1 the dearest row has
 * 1/e of the cheapest row's chance, whatever the unit. `weights` is scratch space of at least `count` entries.
 */
export function pickSampled(
  costs: Float64Array,
  count: number,
  temperature: number,
  draw: number,
  weights: Float64Array,
): number {
  const total = fillChances(costs, count, temperature, weights)
  if (total === 0) return pickLowest(costs, count, draw)
  let sum = 0
  for (let row = 0; row < count; row++) {
    sum += weights[row]! / total
    if (sum >= draw) return row
  }
  return count - 1
}

/** Unnormalised chances of every row; returns their sum, or 0 where the temperature is too small to tell rows apart. */
export function fillChances(costs: Float64Array, count: number, temperature: number, out: Float64Array): number {
  let low = Number.POSITIVE_INFINITY
  let high = Number.NEGATIVE_INFINITY
  for (let row = 0; row < count; row++) {
    const cost = costs[row]!
    if (cost < low) low = cost
    if (cost > high) high = cost
  }
  if (low === high) {
    out.fill(1, 0, count)
    return count
  }
  // Two finite costs can lie further apart than any number: bring them close before subtracting.
  const scale = high - low === Number.POSITIVE_INFINITY ? Math.max(Math.abs(low), Math.abs(high)) : 1
  const unit = (high / scale - low / scale) * temperature
  if (unit === 0) return 0
  let total = 0
  for (let row = 0; row < count; row++) {
    const chance = Math.exp(-(costs[row]! / scale - low / scale) / unit)
    out[row] = chance
    total += chance
  }
  return total
}
