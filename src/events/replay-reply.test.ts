import { expect, it } from 'vitest'
import { fromHex, readReplays, replayRecordings } from '../../test/recordings.js'
import { isUnder, readReplayReply, readSequence, replayRequest } from './replay-reply.js'

const sequence = (value: number) => replayRequest(value)[1]
const empty = new Uint8Array(0)
const payload = Uint8Array.of(1, 2)

it('reads both forms of a reply, with the topic and without', () => {
  const batch = { kind: 'batch', sequence: 7, payload }
  expect(readReplayReply([empty, sequence(7), payload])).toEqual({ ...batch, topic: undefined })
  const topic = Uint8Array.of(0x6b)
  expect(readReplayReply([empty, topic, sequence(7), payload])).toEqual({ ...batch, topic })
})

it('ends at an empty payload, in both forms', () => {
  const marker = new Uint8Array(8).fill(255)
  expect(readReplayReply([empty, marker, empty])).toEqual({ kind: 'end' })
  expect(readReplayReply([empty, empty, marker, empty])).toEqual({ kind: 'end' })
})

it('calls anything else broken', () => {
  for (const frames of [[], [payload], [empty, payload], [empty, Uint8Array.of(1), payload]]) {
    expect(readReplayReply(frames)).toEqual({ kind: 'broken' })
  }
  expect(readReplayReply([empty, empty, empty, sequence(1), payload])).toEqual({ kind: 'broken' })
})

it('reads every recorded reply, and the end of every recorded replay', () => {
  let batches = 0
  for (const replay of replayRecordings.flatMap((name) => readReplays(name))) {
    const replies = replay.reply_frames_hex.map((frames) => readReplayReply(frames.map(fromHex)))
    expect(replies.some((reply) => reply.kind === 'broken')).toBe(false)
    expect(replies.at(-1)?.kind === 'end').toBe(replay.end_marker_seen)
    batches += replies.filter((reply) => reply.kind === 'batch').length
  }
  expect(batches).toBeGreaterThan(100)
})

it('counts as far as numbers go', () => {
  expect(readSequence(sequence(2 ** 40 + 5))).toBe(2 ** 40 + 5)
  expect(readSequence(new Uint8Array(8).fill(255))).toBeUndefined()
  expect(readSequence(new Uint8Array(4))).toBeUndefined()
})

it('takes a topic by its beginning, and one that is left out as it is', () => {
  const [prefix, longer, other] = ['kv', 'kv\0epoch=1', 'k'].map((it) => Buffer.from(it))
  expect([prefix, longer, undefined].map((it) => isUnder(it, prefix!))).toEqual([true, true, true])
  expect([other, empty].map((it) => isUnder(it, prefix!))).toEqual([false, false])
  expect(isUnder(other, empty)).toBe(true)
})
