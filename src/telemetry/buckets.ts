/** Histogram bounds, made as the original system makes them (lib/llm/src/http/service/metrics.rs at v1.2.0), float noise included. */

/**
 * 0, then `count - 1` bounds spaced evenly in the logarithm up to `max`, each rounded to two significant figures. `min`
 * itself never appears: the first step already lies above it.
 */
export function logBuckets(min: number, max: number, count: number): readonly number[] {
  if (count === 0) return []
  const bounds = [0]
  for (let i = 1; i < count; i++) {
    const bound = twoSignificantFigures(Math.exp(Math.log(min) + ((Math.log(max) - Math.log(min)) * i) / (count - 1)))
    if (bound !== bounds.at(-1)) bounds.push(bound)
  }
  return bounds
}

export function linearBuckets(start: number, width: number, count: number): readonly number[] {
  return Array.from({ length: count }, (_, i) => start + width * i)
}

/** Multiplied step by step, so that the bounds carry the same float noise as the original's. */
export function exponentialBuckets(start: number, factor: number, count: number): readonly number[] {
  const bounds: number[] = []
  for (let bound = start; bounds.length < count; bound *= factor) bounds.push(bound)
  return bounds
}

function twoSignificantFigures(value: number): number {
  const exponent = Math.floor(Math.log10(value)) - 1
  // Powers of ten are exact only with a positive exponent: 130000 must not become 130000.00000000001.
  const scale = 10 ** Math.abs(exponent)
  return exponent >= 0 ? Math.round(value / scale) * scale : Math.round(value * scale) / scale
}
