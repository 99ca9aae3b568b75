/** Runs a stream through an index; the checksum is what every lookup answered. */
import { ApplyReport, EventBatch, type PrefixIndex } from '../../../src/core/index/index.js'
import { type Stream, turnFields } from './streams.js'

export function replay(index: PrefixIndex, stream: Stream, from = 0, to = stream.turnCount): string {
  const { turns, prompts, events, workers } = stream
  const depths = new Uint32Array(workers)
  const batch = new EventBatch(16)
  const report = new ApplyReport()
  let sum = 0
  for (let turn = from; turn < to; turn++) {
    const at = turn * turnFields
    const [first, blocks] = [turns[at]!, turns[at + 1]!]
    index.find(prompts.subarray(2 * first, 2 * (first + blocks)), blocks, depths)
    for (let rank = 0; rank < workers; rank++) {
      sum = (Math.imul(sum, 31) + depths[rank]!) | 0
      depths[rank] = 0
    }
    const [word, words] = [turns[at + 2]!, turns[at + 3]!]
    batch.words = events.words.subarray(word, word + words)
    batch.wordCount = words
    batch.eventCount = turns[at + 4]!
    index.apply(batch, report)
  }
  const failed = report.counts.reduce((all, count, code) => (code === 0 || code === 4 ? all : all + count), 0)
  if (failed > 0) throw new Error(`${failed} events of the stream were refused`)
  return `${sum >>> 0}`
}

/** Nanoseconds of each lookup while the stream runs. `inPlace`: the prompt was written into the index's own memory before. */
export function findTimes(index: PrefixIndex, stream: Stream, inPlace = false): Float64Array {
  const { turns, prompts, events, workers } = stream
  const times = new Float64Array(stream.turnCount)
  const depths = new Uint32Array(workers)
  const batch = new EventBatch(16)
  const report = new ApplyReport()
  for (let turn = 0; turn < stream.turnCount; turn++) {
    const at = turn * turnFields
    const [first, blocks] = [turns[at]!, turns[at + 1]!]
    const prompt = inPlace ? index.promptColumn(blocks) : prompts.subarray(2 * first, 2 * (first + blocks))
    if (inPlace) prompt.set(prompts.subarray(2 * first, 2 * (first + blocks)))
    const started = performance.now()
    index.find(prompt, blocks, depths)
    times[turn] = (performance.now() - started) * 1e6
    depths.fill(0)
    const [word, words] = [turns[at + 2]!, turns[at + 3]!]
    batch.words = events.words.subarray(word, word + words)
    batch.wordCount = words
    batch.eventCount = turns[at + 4]!
    index.apply(batch, report)
  }
  return times.sort()
}
