/**
 * A table for a terminal: columns as wide as their widest cell, no frame. Where `width` is given, the words of the last column go on
 * below themselves instead of at the left edge.
 */
export function table(
  head: readonly string[],
  rows: readonly (readonly string[])[],
  width = Number.POSITIVE_INFINITY,
): string[] {
  const widths = head.map((title, at) => Math.max(title.length, ...rows.map((row) => row[at]?.length ?? 0)))
  const last = head.length - 1
  const indent = widths.slice(0, last).reduce((sum, it) => sum + it + gap.length, 0)
  const room = Math.max(wordsMin, width - indent)
  const lines = (cells: readonly string[]): string[] =>
    wrap(cells[last] ?? '', room).map((words, at) => {
      const before =
        at > 0
          ? ' '.repeat(indent)
          : cells
              .slice(0, last)
              .map((cell, of) => cell.padEnd(widths[of]!) + gap)
              .join('')
      return (before + words).trimEnd()
    })
  return [head, ...rows].flatMap(lines)
}

const gap = '  '
/** A terminal that is narrower than the other columns breaks lines by itself. */
const wordsMin = 24

function wrap(text: string, width: number): string[] {
  if (text.length <= width) return [text]
  const lines = ['']
  for (const word of text.split(' ')) {
    const line = lines.at(-1)!
    if (line !== '' && line.length + 1 + word.length > width) lines.push(word)
    else lines[lines.length - 1] = line === '' ? word : `${line} ${word}`
  }
  return lines
}
