// A real vLLM with a vision model, recorded: what its render endpoint said of pictures, what its KV events said of the same prompts,
// and how many cached tokens it then reported. The first has to lead to the second and predict the third.
import { readFileSync } from 'node:fs'
import { createServer } from 'node:http'
import type { Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { gunzipSync } from 'node:zlib'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { createBlockHasher, createHashScheme } from '../../src/core/hashing/index.js'
import { KvEventDecoder, predictCachedTokens } from '../../src/engines/index.js'
import { Intake } from '../../src/events/index.js'
import type { Body } from '../../src/tokens/index.js'
import { Tokens, TokenService } from '../../src/tokens/index.js'
import { NaiveSink } from '../naive-sink.js'
import { fromHex } from '../recordings.js'
import { expectClosed } from '../closed-router.js'

interface Line {
  readonly kind: 'http' | 'zmq'
  readonly step: string
  readonly frames?: readonly [string, string, string]
  readonly request?: { readonly body: Body & { readonly mm_payload?: string } }
  readonly response_text?: string
}
const file = new URL('../fixtures/vllm/media.jsonl.gz', import.meta.url)
const lines = gunzipSync(readFileSync(file))
  .toString('utf8')
  .trim()
  .split('\n')
  .map((line) => JSON.parse(line) as Line)
const exchange = (step: string): Line => lines.find((it) => it.kind === 'http' && it.step === step)!

const blockSize = 32
const hasher = createBlockHasher()
const service = new TokenService({ threads: 1 })
const asked: string[] = []
let server: Server

beforeAll(async () => {
  // Answers as recorded, and only to what was recorded: without tensors.
  server = createServer((request, response) => {
    let text = ''
    request.on('data', (chunk: Buffer) => (text += chunk.toString('utf8')))
    request.on('end', () => {
      if (request.method === 'GET') return void response.writeHead(404).end('{}')
      const { messages, mm_payload: payload } = JSON.parse(text) as { messages: unknown; mm_payload?: string }
      const found = lines.find(
        (it) =>
          it.step.endsWith('-render-bare') &&
          it.request?.body.mm_payload === payload &&
          JSON.stringify(it.request?.body['messages']) === JSON.stringify(messages),
      )
      asked.push(found?.step ?? 'unknown')
      response.writeHead(found ? 200 : 404).end(found?.response_text)
    })
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  await service.setModel('vision', { engine: { url, dialect: 'vllm' } })
})
afterAll(async () => {
  server.close()
  await service.close()
  await expectClosed()
})

it('pictures are placed and hashed as the events of the same engine have them', async () => {
  const index = new NaiveSink()
  const decoder = new KvEventDecoder()
  const intake = new Intake({ decoder, sink: index, hasher, blockSize, seed: 1, requestReplay: () => undefined })
  const feed = intake.addFeed({ rank: 0, dpRank: 0, hasReplay: false, usableBlocks: 300 })
  feed.machine.connected(0)
  const rows: { step: string; predicted: number; reported: number; stored: number; blocks: number }[] = []
  for (const step of ['one-image', 'two-images', 'same-image-twice', 'second-image', 'named', 'no-image']) {
    const { request, response_text: text } = exchange(step)
    const { usage, prompt_token_ids: ids } = JSON.parse(text!) as {
      usage: { prompt_tokens: number; prompt_tokens_details: { cached_tokens: number } | null }
      prompt_token_ids: number[]
    }
    const body = { messages: request!.body['messages'], model: 'tiny' } as Body
    const raw = new TextEncoder().encode(JSON.stringify(body))
    const tokens = await service.tokenizeRequest('vision', 'chat', body, { raw })
    const depth = (): number =>
      tokens instanceof Tokens
        ? index.depth(0, tokens.blockHashes(createHashScheme({ blockSize }), hasher).localColumn())
        : 0
    const predicted = predictCachedTokens({
      engine: 'vllm',
      promptTokens: ids.length,
      matchedBlocks: depth(),
      blockSize,
    })
    for (const { frames } of lines.filter((it) => it.kind === 'zmq' && it.step === step)) {
      feed.machine.frame(Number(BigInt(`0x${frames![1]}`)), fromHex(frames![2]), 20_000)
    }
    intake.flush()
    if (tokens instanceof Tokens) expect([...tokens.ids]).toEqual(ids)
    else expect(tokens).toMatchObject({ loadOnly: 'media-image' })
    const reported = usage.prompt_tokens_details?.cached_tokens ?? 0
    rows.push({ step, predicted, reported, stored: depth(), blocks: Math.floor(ids.length / blockSize) })
  }
  expect(rows).toEqual([
    { step: 'one-image', predicted: 0, reported: 0, stored: 4, blocks: 4 },
    { step: 'two-images', predicted: 32, reported: 32, stored: 4, blocks: 4 },
    { step: 'same-image-twice', predicted: 64, reported: 64, stored: 4, blocks: 4 },
    { step: 'second-image', predicted: 64, reported: 64, stored: 4, blocks: 4 },
    // A client's own name for a picture is not matched by tokens: see media-features.ts.
    { step: 'named', predicted: 0, reported: 64, stored: 0, blocks: 4 },
    { step: 'no-image', predicted: 32, reported: 32, stored: 2, blocks: 2 },
  ])
  expect(asked).not.toContain('unknown')
})
