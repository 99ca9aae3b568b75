/** Plots without a library: inline SVG and a few boxes. Colours are CSS variables of the page, so dark mode is free. */
export interface Series {
  readonly label: string
  readonly color: string
  /** Told apart from another line of the same colour. */
  readonly isDashed?: boolean
  readonly points: readonly (readonly [x: number, y: number])[]
}

export interface Bar {
  readonly label: string
  readonly color: string
  readonly value: number
  readonly text: string
}

export interface Axis {
  readonly title: string
  readonly isLog?: boolean
  /** Ends with the last value instead of the next round number. */
  readonly isTight?: boolean
  readonly format: (value: number) => string
}

interface Size {
  readonly name: string
  readonly width: number
  readonly height: number
  readonly left: number
  readonly right: number
  readonly top: number
  readonly bottom: number
  readonly ticksMax: { readonly x: number; readonly y: number }
}

/** Text of a plot that is made narrower would shrink with it: each plot is drawn twice, and the page shows the one that fits. */
const sizes: readonly Size[] = [
  { name: 'broad', width: 760, height: 320, left: 76, right: 24, top: 12, bottom: 44, ticksMax: { x: 9, y: 6 } },
  { name: 'slim', width: 360, height: 270, left: 76, right: 14, top: 10, bottom: 42, ticksMax: { x: 5, y: 6 } },
]

/** Lines over one pair of axes. Hovering a line names it. */
export function linePlot(series: readonly Series[], x: Axis, y: Axis): string {
  return sizes.map((size) => linesOf(size, series, x, y)).join('')
}

function linesOf(size: Size, series: readonly Series[], x: Axis, y: Axis): string {
  const { width, height, left, right, top, bottom, ticksMax } = size
  const all = series.flatMap(({ points }) => points)
  const xs = scaleOf(
    all.map(([value]) => value),
    { from: left, to: width - right, axis: x, ticksMax: ticksMax.x },
  )
  const ys = scaleOf([0, ...all.map(([, value]) => value)], {
    from: height - bottom,
    to: top,
    axis: y,
    ticksMax: ticksMax.y,
  })
  const lines = series.map(({ label, color, isDashed, points }) => {
    const path = points.map(([px, py], index) => `${index === 0 ? 'M' : 'L'}${at(xs.place(px))} ${at(ys.place(py))}`)
    if (points.length === 1) path.push('h0') // its round ends make a dot
    const look = points.length === 1 ? ' stroke-width="8"' : isDashed ? ' stroke-dasharray="7 5"' : ''
    return `<path class="line" d="${path.join('')}" stroke="${color}"${look}><title>${escapeText(label)}</title></path>`
  })
  return frame(
    width,
    height,
    `${y.title} by ${x.title}`,
    [...gridX(size, xs, x), ...gridY(size, ys, y), ...lines],
    size,
  )
}

/** One horizontal bar per run, its value at its end. */
export function barPlot(bars: readonly Bar[], max: number): string {
  const rows = bars.map(({ label, color, value, text }) => {
    const share = max > 0 ? (100 * value) / max : 0
    const bar = `<b style="width:calc((100% - 70px)*${at(share)}/100);background:${color}"></b>`
    return `<dt>${escapeText(label)}</dt><dd>${bar}<span>${escapeText(text)}</span></dd>`
  })
  return `<dl class="bars">${rows.join('')}</dl>`
}

/** One small column per worker: what it computed, and above it, paler, what its cache spared it. */
export function workerPlot(
  workers: readonly { readonly computed: number; readonly spared: number }[],
  max: number,
  color: string,
): string {
  const panelWidth = 360
  const panelHeight = 120
  const step = panelWidth / Math.max(1, workers.length)
  const tall = (value: number): number => (max > 0 ? ((panelHeight - 18) * value) / max : 0)
  const columns = workers.flatMap(({ computed, spared }, worker) => {
    const x = at(worker * step + step * 0.12)
    const w = at(step * 0.76)
    const base = panelHeight - 16
    const says = `worker ${worker}: ${thousands(computed)} tokens computed, ${thousands(spared)} from cache`
    return [
      `<g><title>${says}</title>`,
      `<rect x="${x}" y="${at(base - tall(computed))}" width="${w}" height="${at(tall(computed))}" fill="${color}"/>`,
      `<rect x="${x}" y="${at(base - tall(computed + spared))}" width="${w}" height="${at(tall(spared))}" fill="${color}" opacity="0.3"/>`,
      '</g>',
      ...(workers.length <= 16
        ? [
            `<text class="tick" x="${at(worker * step + step / 2)}" y="${panelHeight - 3}" text-anchor="middle">${worker}</text>`,
          ]
        : []),
    ]
  })
  return frame(panelWidth, panelHeight, 'prompt tokens of each worker', columns)
}

export function escapeText(text: string): string {
  return text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;').replaceAll('"', '&quot;')
}

interface Scale {
  readonly ticks: readonly number[]
  place(value: number): number
}

interface Place {
  readonly from: number
  readonly to: number
  readonly axis: Axis
  readonly ticksMax: number
}

function scaleOf(values: readonly number[], { from, to, axis, ticksMax }: Place): Scale {
  const [low, high] = axis.isLog
    ? rangeOf(
        values.filter((value) => value > 0),
        0.1,
      )
    : rangeOf(values, 0)
  if (!axis.isLog) {
    const step = niceStep((high - low) / (ticksMax - 1))
    const end = axis.isTight ? high : Math.ceil(high / step) * step
    const ticks = Array.from({ length: Math.floor((end - low) / step + 1e-9) + 1 }, (_, index) => low + index * step)
    return { ticks, place: (value) => from + ((to - from) * (value - low)) / (end - low) }
  }
  const span = Math.log(high / low)
  return {
    ticks: logTicks(low, high, ticksMax),
    place: (value) => from + ((to - from) * Math.log(Math.max(value, low) / low)) / span,
  }
}

/** Never empty: a single value stands in the middle of what is around it, and nothing stands between `least` and 1. */
function rangeOf(values: readonly number[], least: number): [low: number, high: number] {
  let low = Number.POSITIVE_INFINITY
  let high = Number.NEGATIVE_INFINITY
  for (const value of values) {
    low = Math.min(low, value)
    high = Math.max(high, value)
  }
  if (high > low) return [low, high]
  return high > 0 ? [low * 0.8, high * 1.25] : [least, 1]
}

/** As many round numbers as have room: 1, 2, 5 of each decade, else fewer of it; within a decade, steps of equal size. */
function logTicks(low: number, high: number, ticksMax: number): number[] {
  const sets = [[1, 2, 5], [1, 3], [1]].map((factors) => {
    const ticks: number[] = []
    for (let decade = 10 ** Math.floor(Math.log10(low)); decade <= high; decade *= 10)
      ticks.push(...factors.map((factor) => decade * factor).filter((tick) => tick >= low && tick <= high))
    return ticks
  })
  if (sets[0]!.length > 2) return sets.find(({ length }) => length <= ticksMax) ?? sets.at(-1)!
  const step = niceStep((high - low) / (ticksMax - 1))
  const first = Math.ceil(low / step - 1e-9)
  return Array.from({ length: Math.floor(high / step + 1e-9) - first + 1 }, (_, index) => (first + index) * step)
}

function niceStep(rough: number): number {
  const power = 10 ** Math.floor(Math.log10(rough))
  return power * ([1, 2, 2.5, 5].find((factor) => factor * power >= rough) ?? 10)
}

function gridX({ width, height, left, right, top, bottom }: Size, scale: Scale, axis: Axis): string[] {
  const marks = scale.ticks.flatMap((tick) => {
    const x = at(scale.place(tick))
    return [
      `<line class="grid" x1="${x}" x2="${x}" y1="${top}" y2="${height - bottom}"/>`,
      `<text class="tick" x="${x}" y="${height - bottom + 16}" text-anchor="middle">${axis.format(tick)}</text>`,
    ]
  })
  const middle = (left + width - right) / 2
  return [...marks, `<text class="axis" x="${middle}" y="${height - 8}" text-anchor="middle">${axis.title}</text>`]
}

function gridY({ width, height, left, right, top, bottom }: Size, scale: Scale, axis: Axis): string[] {
  const marks = scale.ticks.flatMap((tick) => {
    const y = at(scale.place(tick))
    return [
      `<line class="grid" x1="${left}" x2="${width - right}" y1="${y}" y2="${y}"/>`,
      `<text class="tick" x="${left - 7}" y="${at(scale.place(tick) + 4)}" text-anchor="end">${axis.format(tick)}</text>`,
    ]
  })
  const middle = (top + height - bottom) / 2
  return [
    ...marks,
    `<text class="axis" transform="translate(13 ${middle}) rotate(-90)" text-anchor="middle">${axis.title}</text>`,
  ]
}

function frame(w: number, h: number, says: string, parts: readonly string[], size?: Size): string {
  const name = size ? ` class="${size.name}"` : ''
  return `<svg${name} viewBox="0 0 ${w} ${h}" role="img" aria-label="${escapeText(says)}" preserveAspectRatio="xMinYMin meet">${parts.join('')}</svg>`
}

function at(value: number): string {
  return String(Math.round(value * 10) / 10)
}

function thousands(value: number): string {
  return Math.round(value).toLocaleString('en')
}
