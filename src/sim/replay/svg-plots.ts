/** Plots as inline SVG: lines and bars, nothing from outside. Colours are CSS variables of the page, so dark mode is free. */
export interface Series {
  readonly label: string
  readonly color: string
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
  readonly format: (value: number) => string
}

const width = 760
const height = 320
const left = 76
const right = 24
const top = 12
const bottom = 44

/** Lines over one pair of axes. Hovering a line names it. */
export function linePlot(series: readonly Series[], x: Axis, y: Axis): string {
  const all = series.flatMap(({ points }) => points)
  const xs = scaleOf(
    all.map(([value]) => value),
    left,
    width - right,
    x.isLog ?? false,
  )
  const ys = scaleOf([0, ...all.map(([, value]) => value)], height - bottom, top, false)
  const lines = series.map(({ label, color, points }) => {
    const path = points.map(([px, py], index) => `${index === 0 ? 'M' : 'L'}${at(xs.place(px))} ${at(ys.place(py))}`)
    return `<path class="line" d="${path.join('')}" stroke="${color}"><title>${escapeText(label)}</title></path>`
  })
  return frame(width, height, `${y.title} by ${x.title}`, [...gridX(xs, x), ...gridY(ys, y), ...lines])
}

/** One horizontal bar per run, its value at its end. */
export function barPlot(bars: readonly Bar[], max: number): string {
  const rowHeight = 30
  const labelWidth = 210
  const room = width - labelWidth - 90
  const rows = bars.flatMap(({ label, color, value, text }, row) => {
    const y = row * rowHeight
    const length = max > 0 ? (room * value) / max : 0
    return [
      `<text class="name" x="${labelWidth - 8}" y="${y + 19}" text-anchor="end">${escapeText(shortened(label))}</text>`,
      `<rect x="${labelWidth}" y="${y + 5}" width="${at(Math.max(1, length))}" height="20" rx="3" fill="${color}"/>`,
      `<text class="value" x="${at(labelWidth + length + 7)}" y="${y + 19}">${escapeText(text)}</text>`,
    ]
  })
  const says = bars.map(({ label, text }) => `${label} ${text}`).join(', ')
  return frame(width, bars.length * rowHeight + 4, says, rows)
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

function scaleOf(values: readonly number[], from: number, to: number, isLog: boolean): Scale {
  let low = Number.POSITIVE_INFINITY
  let high = Number.NEGATIVE_INFINITY
  for (const value of values) {
    if (isLog && value <= 0) continue
    low = Math.min(low, value)
    high = Math.max(high, value)
  }
  if (!(high > low)) {
    low = Number.isFinite(low) ? low * 0.9 : 0.1
    high = low + 1
  }
  if (!isLog) {
    const step = niceStep((high - low) / 5)
    const end = Math.ceil(high / step) * step
    const ticks = Array.from({ length: Math.floor((end - low) / step + 1e-9) + 1 }, (_, index) => low + index * step)
    return { ticks, place: (value) => from + ((to - from) * (value - low)) / (end - low) }
  }
  const span = Math.log(high / low)
  const ticks: number[] = []
  for (let decade = 10 ** Math.floor(Math.log10(low)); decade <= high; decade *= 10)
    for (const factor of [1, 2, 5]) {
      const tick = decade * factor
      if (tick >= low && tick <= high) ticks.push(tick)
    }
  return { ticks, place: (value) => from + ((to - from) * Math.log(Math.max(value, low) / low)) / span }
}

function niceStep(rough: number): number {
  const power = 10 ** Math.floor(Math.log10(rough))
  return power * ([1, 2, 5].find((factor) => factor * power >= rough) ?? 10)
}

function gridX(scale: Scale, axis: Axis): string[] {
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

function gridY(scale: Scale, axis: Axis): string[] {
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

function frame(w: number, h: number, says: string, parts: readonly string[]): string {
  return `<svg viewBox="0 0 ${w} ${h}" role="img" aria-label="${escapeText(says)}" preserveAspectRatio="xMinYMin meet">${parts.join('')}</svg>`
}

function at(value: number): string {
  return String(Math.round(value * 10) / 10)
}

function shortened(text: string): string {
  return text.length <= 32 ? text : `${text.slice(0, 31)}…`
}

function thousands(value: number): string {
  return Math.round(value).toLocaleString('en')
}
