import { readFileSync } from 'node:fs'
import { gunzipSync } from 'node:zlib'
import { decode } from '@msgpack/msgpack'
import { expect, it } from 'vitest'
import { VirtualClock } from '../clock.js'
import { publishedHash } from './block-chain.js'
import { engineModel } from './engine-models.js'
import type { EngineName } from './engine-name.js'
import { encodeBatch, wireForm } from './kv-wire.js'
import { KvRank } from './kv-rank.js'

/** One request of a recording, with the tokens that the real engine read and wrote. */
interface RecordedStep {
  readonly step: string
  readonly reset: boolean
  readonly prompt: readonly number[]
  readonly output: readonly number[]
  /** As reported by each reply of the step; a reply with two choices reports the second one's. */
  readonly cachedTokens: readonly number[]
  readonly copies: number
  readonly body: Readonly<Record<string, unknown>>
  readonly sessionHeader: string | undefined
  /** Published while this step ran, decoded. */
  readonly batches: readonly (readonly RecordedEvent[])[]
}

interface RecordedEvent {
  readonly type: string
  readonly block_hashes?: readonly bigint[]
  readonly parent_block_hash?: bigint | null
}

type Json = Record<string, never> & Record<string, unknown>

function readSteps(file: string): RecordedStep[] {
  const lines = gunzipSync(readFileSync(`test/fixtures/${file}`))
    .toString()
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line))
  return lines
    .filter((line) => line.kind === 'http' && /^\d/.test(line.step))
    .filter((line, index, all) => all.findIndex((other) => other.step === line.step) === index) // 20 has two lines
    .map((line) => {
      const reply = parseReply(line.response_text)
      const body = (line.request.body ?? {}) as Json
      return {
        step: line.step as string,
        reset: /reset|flush/.test(line.request.path),
        output: reply.output,
        cachedTokens: lines
          .filter((other) => other.kind === 'http' && other.step === line.step)
          .map((other) => parseReply(other.response_text).cachedTokens),
        prompt: ((body['prompt'] ?? body['input_ids']) as unknown as number[] | undefined) ?? reply.prompt,
        ...(typeof body['prompt'] === 'string' ? { prompt: reply.prompt } : {}),
        copies:
          Number(body['n'] ?? 1) * lines.filter((other) => other.kind === 'http' && other.step === line.step).length,
        body,
        sessionHeader: line.request.headers['X-Session-ID'] as string | undefined,
        batches: lines
          .filter((other) => other.kind === 'zmq' && other.step === line.step)
          .map(
            (other) =>
              (decode(Buffer.from(other.frames[2], 'hex'), { useBigInt64: true }) as [number, RecordedEvent[]])[1],
          ),
      }
    })
}

function parseReply(text: string): { prompt: number[]; output: number[]; cachedTokens: number } {
  if (text.startsWith('data: ')) {
    const chunks = text
      .split('\n\n')
      .filter((chunk) => chunk.startsWith('data: {'))
      .map((chunk) => JSON.parse(chunk.slice(6)))
    const choices = chunks.flatMap((chunk) => chunk.choices)
    return {
      prompt: choices[0].prompt_token_ids ?? [],
      output: choices.flatMap((choice) => choice.token_ids ?? []),
      cachedTokens: chunks.at(-1).usage.prompt_tokens_details.cached_tokens,
    }
  }
  if (!text.startsWith('{"')) return { prompt: [], output: [], cachedTokens: 0 }
  const json = JSON.parse(text)
  if (json.success !== undefined) return { prompt: [], output: [], cachedTokens: 0 }
  if (json.meta_info) return { prompt: [], output: json.output_ids, cachedTokens: json.meta_info.cached_tokens }
  const choice = json.choices[0]
  const count = json.usage.completion_tokens / json.choices.length
  return {
    prompt: json.prompt_token_ids ?? choice.prompt_token_ids ?? [],
    output: choice.token_ids ?? choice.response_token_ids ?? Array.from({ length: count }, () => 5),
    cachedTokens: json.usage.prompt_tokens_details?.cached_tokens ?? 0,
  }
}

/** Plays the recorded requests, one after the other as they were recorded, and answers what was published and reported. */
function play(engine: EngineName, steps: readonly RecordedStep[]) {
  const clock = new VirtualClock()
  const outputs: number[][] = []
  let published: RecordedEvent[][] = []
  const rank = new KvRank(
    {
      engine,
      model: engineModel(engine, { blocks: 300, blockTokens: 32, batchedTokensMax: engine === 'vllm' ? 2048 : 4096 }),
      hashSeed: '0',
      decodeLogInterval: 40,
      loraIds: new Map(),
      sample: (content) => outputs[0]?.[content.tokens.length - content.promptTokens] ?? 5,
    },
    clock,
    (events) => {
      const bytes = encodeBatch(wireForm(engine, engine === 'vllm' ? '0.32.0' : '0.5.23'), 1.5, events, 0)
      published.push((decode(bytes, { useBigInt64: true }) as [number, RecordedEvent[]])[1])
    },
  )
  published = []
  return steps.map((step) => {
    published = []
    const cachedTokens: number[] = step.reset ? [0] : []
    if (step.reset) expect(rank.reset()).toBe(true)
    else {
      outputs[0] = [...step.output]
      for (let copy = 0; copy < step.copies; copy++)
        rank.submit({
          prompt: step.prompt,
          outputTokensMax: step.output.length,
          salt: step.body['cache_salt'] as string | undefined,
          extraKey: step.body['extra_key'] as string | undefined,
          sessionId: (step.body['session_id'] as string | undefined) ?? step.sessionHeader,
          skipsCacheRead: step.body['prompt_logprobs'] !== undefined,
          isFullReport: JSON.stringify(step.body['vllm_xargs'] ?? {}).includes('full'),
          onToken: () => false,
          onEnd: (_, request) => cachedTokens.push(request.cachedTokens),
        })
      clock.run()
    }
    return { batches: published, cachedTokens: cachedTokens.slice(-step.cachedTokens.length) }
  })
}

/** Hashes by order of appearance: two feeds are equal if they say the same of blocks that appear in the same order. */
function renamed(batches: readonly (readonly RecordedEvent[])[], names: Map<bigint, string>): unknown {
  const name = (hash: bigint): string => {
    const key = BigInt.asUintN(64, hash)
    if (!names.has(key)) names.set(key, `block ${names.size}`)
    return names.get(key)!
  }
  return batches.map((events) =>
    events.map((event) => ({
      ...event,
      ...(event.block_hashes ? { block_hashes: event.block_hashes.map(name) } : {}),
      ...(typeof event.parent_block_hash === 'bigint' ? { parent_block_hash: name(event.parent_block_hash) } : {}),
    })),
  )
}

it('says of its cache what a real vLLM said, event by event, through hits, salts, evictions and resets', () => {
  const steps = readSteps('vllm/kv-events.jsonl.gz')
  const theirs = new Map<bigint, string>()
  const ours = new Map<bigint, string>()
  const played = play('vllm', steps)
  expect(steps.length).toBeGreaterThan(25)
  for (const [index, step] of steps.entries()) {
    expect(renamed(played[index]!.batches, ours), step.step).toEqual(renamed(step.batches, theirs))
    expect(played[index]!.cachedTokens, step.step).toEqual(step.cachedTokens)
  }
})

it('says of its cache what a real SGLang said, hash for hash, evictions and flushes included', () => {
  const steps = readSteps('sglang/kv-events.jsonl.gz')
  const played = play('sglang', steps)
  expect(steps.length).toBeGreaterThan(18)
  for (const [index, step] of steps.entries()) {
    expect(played[index]!.batches, step.step).toEqual(step.batches)
    expect(played[index]!.cachedTokens, step.step).toEqual(step.cachedTokens)
  }
})

it('publishes the digests that it computed', () => {
  expect(
    publishedHash(
      'vllm',
      Uint8Array.from({ length: 32 }, (_, index) => index),
    ),
  ).toBe(0x18191a1b1c1d1e1fn)
})
