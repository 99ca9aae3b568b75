/**
 * The admission self-test of one rank: a prompt that nobody can have cached must be stored, by this rank, in blocks of the
 * size that was announced; sent again it must be found; and a replay must show it once more.
 */
import { cacheReportFlags, eventFlags } from '../assemble/worker-mode.js'
import type { EventSourceFact } from '../../engines/index.js'
import { Ear } from './ear.js'
import type { StoredEvent } from './ear.js'
import type { Finding } from './finding.js'
import type { Patient } from './patient.js'
import { generate } from './patient.js'

export const newPromptCheck = 'event of a new prompt'

const path = '/v1/completions'
const storeMs = 2_000
const replayMs = 5_000
const repeatsMax = 20

export interface SelfTestInput {
  readonly patient: Patient
  readonly rank: number
  readonly blockSize: number
  readonly sources: readonly EventSourceFact[]
  /** Follows every stream of the worker; absent where there are none. */
  readonly ear: Ear | undefined
}

export async function selfTest(input: SelfTestInput): Promise<Finding[]> {
  const { patient, rank, blockSize, ear } = input
  const prompt = randomTokens(3 * blockSize + 1)
  const sentMs = performance.now()
  const first = await generate(patient, path, { prompt: [...prompt] }, rank)
  if (first.status !== 200)
    return [
      {
        check: 'completion',
        rank,
        verdict: 'fail',
        reason: `a prompt of token ids was answered with status ${first.status}: ${first.text.slice(0, 120)}`,
      },
    ]
  const findings: Finding[] = []
  if (ear) findings.push(...(await judgeStore(input, ear, prompt, sentMs)))
  findings.push(await judgeRepeat(input, prompt))
  if (ear && findings.every((it) => it.verdict !== 'fail')) findings.push(await judgeReplay(input, prompt))
  return findings
}

async function judgeStore(
  { patient, rank, blockSize, sources }: SelfTestInput,
  ear: Ear,
  prompt: Uint32Array,
  sentMs: number,
): Promise<Finding[]> {
  const check = newPromptCheck
  const store = await ear.heard((it) => startsAlike(it, prompt), storeMs, patient.signal)
  if (!store) {
    const foreign = ear.stores.some((it) => it.atMs >= sentMs)
    const reason = foreign
      ? 'events came, but none of this prompt: the port may be another engine’s'
      : `no event within ${storeMs / 1000} s`
    const fix = foreign ? 'give each engine on a host its own event port' : eventFlags[patient.facts.kind.value]
    return [{ check, rank, verdict: 'fail', reason, fix }]
  }
  const delay = `stored ${Math.max(0, store.atMs - sentMs).toFixed(0)} ms after it was sent`
  const findings: Finding[] = [{ check, rank, verdict: 'pass', reason: delay }]
  if (store.streamRank !== rank || (store.batchRank >= 0 && store.batchRank !== rank && sources.length > 1))
    findings.push({
      check: 'rank of the event',
      rank,
      verdict: 'fail',
      reason: `pinned to rank ${rank}, stored by rank ${store.batchRank} on the stream of rank ${store.streamRank}`,
      fix: 'use an engine version that honours the rank of a request',
    })
  if (store.blockSize !== blockSize)
    findings.push({
      check: 'block size of the event',
      rank,
      verdict: 'fail',
      reason: `announced ${blockSize} tokens, events have ${store.blockSize}`,
    })
  return findings
}

/** The engine may finish writing after it has answered, so an early miss is asked again. */
async function judgeRepeat({ patient, rank, blockSize }: SelfTestInput, prompt: Uint32Array): Promise<Finding> {
  const check = 'same prompt again'
  const expected = patient.facts.isEagle?.value ? [2 * blockSize, 3 * blockSize] : [3 * blockSize]
  let cached: number | undefined
  for (let attempt = 0; attempt < repeatsMax && !patient.signal.aborted; attempt++) {
    const again = await generate(patient, path, { prompt: [...prompt] }, rank)
    cached = again.cachedTokens
    if (again.status !== 200 || cached === undefined || expected.includes(cached)) break
  }
  if (cached === undefined)
    return {
      check,
      rank,
      verdict: 'warn',
      reason: 'the engine does not report cached tokens, so predictions cannot be compared',
      fix: cacheReportFlags[patient.facts.kind.value],
    }
  if (expected.includes(cached))
    return { check, rank, verdict: 'pass', reason: `${cached} of ${prompt.length} tokens cached, as expected` }
  return {
    check,
    rank,
    verdict: 'fail',
    reason: `${cached} tokens cached, expected ${expected.join(' or ')}`,
    fix: 'look at the prefix cache settings of the engine',
  }
}

async function judgeReplay(
  { patient, rank, blockSize, sources }: SelfTestInput,
  prompt: Uint32Array,
): Promise<Finding> {
  const check = 'replay'
  const source = sources.find(({ dpRank }) => dpRank === rank)
  if (!source?.replayEndpoint)
    return {
      check,
      rank,
      verdict: 'warn',
      reason: 'no replay socket: after a gap or our restart this cache must be learnt anew',
      fix: eventFlags[patient.facts.kind.value],
    }
  const ear = new Ear([source], blockSize, true)
  try {
    const again = await ear.heard((it) => startsAlike(it, prompt), replayMs, patient.signal)
    return again
      ? { check, rank, verdict: 'pass', reason: 'the same event came again' }
      : {
          check,
          rank,
          verdict: 'fail',
          reason: 'a replay from the start did not show the event',
          fix: 'open the replay port',
        }
  } finally {
    await ear.close()
  }
}

/** Ids that every usual vocabulary has, in an order that nobody has cached. */
export function randomTokens(count: number): Uint32Array {
  return crypto.getRandomValues(new Uint32Array(count)).map((value) => 1_000 + (value % 4_000))
}

/** The event's tokens are the first ones of the prompt. */
export function startsAlike({ tokens }: StoredEvent, prompt: Uint32Array): boolean {
  return tokens.length > 0 && tokens.length <= prompt.length && tokens.every((token, at) => token === prompt[at])
}
