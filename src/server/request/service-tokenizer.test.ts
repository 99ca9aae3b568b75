import { readFileSync } from 'node:fs'
import { expect, it } from 'vitest'
import { TokenService, Tokens } from '../../tokens/index.js'
import { endpointRows } from './endpoints.js'
import type { PromptRequest, PromptTokens } from './prompt.js'
import { createServiceTokenizer } from './service-tokenizer.js'

const [usualWorker, otherWorker] = [1n, 2n]

it.each([
  ['usual', usualWorker],
  ['other', otherWorker],
])('an engine of the %s kind that counts otherwise is no trouble of the other kind', async (kind, differing) => {
  const model = 'm'
  const tokens = new Tokens({ ids: Uint32Array.of(1, 2, 3), source: 'tokenizer', exactness: 'proven' })
  const service = new TokenService()
  await service.setModel(model, {})
  service.setOther(model, 'sglang', {})
  const others = [{ dialect: 'sglang', workerIds: new Set([otherWorker]) }] as const
  const tokenizer = createServiceTokenizer(
    {
      tokenizeRequest: () => Promise.resolve(tokens),
      announce: () => {},
      notAsked: (_, loadOnly, detail) => ({ loadOnly, detail }),
      counted: (...said) => service.counted(...said),
      idMax: () => undefined,
      fillsEmptyTexts: () => undefined,
    },
    { model, others: () => others },
  )
  const prompt = await tokenizer.tokenize({
    row: endpointRows.find(({ endpoint }) => endpoint === 'completions')!,
    model,
    blockSize: 16,
    body: { prompt: 'both make the same tokens of this' },
    bytes: new Uint8Array(0),
    signal: new AbortController().signal,
  })
  if (!prompt?.tokens) throw new Error('no tokens')
  for (let at = 0; at < 4; at++)
    for (const worker of [usualWorker, otherWorker]) prompt.counted!(worker === differing ? 4 : 3, worker)
  const troubles = { usual: service.status(model).trouble, other: service.status(model, 'sglang').trouble }
  const told = expect.stringContaining('of the last 4 prompts the engine counted 4 otherwise') as string
  expect(troubles).toEqual({ usual: undefined, other: undefined, [kind]: told })
  expect(service.counts.prompts[model]!.counted).toEqual({ equal: 4, different: 4 })
  await service.close()
})

it.each([
  { says: 'a text', given: { text: 'hi' }, prompt: 'hi', isCounted: true },
  { says: 'several texts, which it counts one by one', given: { text: ['hi', 'ho'] }, prompt: ['hi', 'ho'] },
  { says: 'nothing that is known beside a picture', given: { text: 'hi', image_data: 'x' } },
  { says: 'nothing that is known in a session of the client', given: { text: 'hi', session_params: { id: 's' } } },
])("SGLang's own route encodes $says as its completions do", async ({ given, prompt, isCounted = false }) => {
  const asked: unknown[] = []
  const tokenizer = createServiceTokenizer(
    {
      tokenizeRequest: (_, route, body) => {
        asked.push(route, body)
        const promptCount = Array.isArray(prompt) ? prompt.length : 1
        const ids = Uint32Array.of(1, 2)
        return Promise.resolve(new Tokens({ ids, promptCount, source: 'tokenizer', exactness: 'proven' }))
      },
      announce: () => {},
      notAsked: (_, loadOnly, detail) => ({ loadOnly, detail }),
      counted: () => {},
      idMax: () => undefined,
      fillsEmptyTexts: () => undefined,
    },
    { model: 'm' },
  )
  const answer = await tokenizer.tokenize(generateRequest(given && { model: 'm', ...given }))
  expect(asked).toEqual(prompt === undefined ? [] : ['completions', { model: 'm', prompt }])
  expect((answer as PromptTokens | undefined)?.counted !== undefined).toBe(isCounted)
})

interface Recorded {
  readonly path: string
  readonly body: { readonly text: string | readonly string[] }
  readonly answer:
    | { readonly prompt_token_ids?: readonly number[] }
    | readonly { prompt_token_ids: readonly number[] }[]
}

it("texts on SGLang's own route become the ids that a real one made of them", async () => {
  const service = new TokenService()
  await service.setModel('m', { path: 'test/fixtures/tinyllama' })
  const tokenizer = createServiceTokenizer(service, { model: 'm' })
  const recorded = JSON.parse(readFileSync('test/fixtures/sglang/generate.json', 'utf8')) as readonly Recorded[]
  let compared = 0
  for (const { path, body, answer } of recorded) {
    const [first] = [answer].flat()
    if (path !== '/generate' || !first?.prompt_token_ids) continue
    const made = await tokenizer.tokenize(generateRequest({ model: 'm', text: body.text }))
    expect([...made!.tokens!]).toEqual(first.prompt_token_ids)
    compared++
  }
  expect(compared).toBe(8)
  await service.close()
})

it("a long text on SGLang's own route becomes what a completion of it becomes", async () => {
  const service = new TokenService()
  await service.setModel('m', { path: 'test/fixtures/tinyllama' })
  const tokenizer = createServiceTokenizer(service, { model: 'm' })
  const prompt = 'once upon a time '.repeat(2_000)
  const bytes = Buffer.from(JSON.stringify({ model: 'm', prompt }))
  const made = await tokenizer.tokenize({ ...generateRequest(undefined), bytes })
  const short = await tokenizer.tokenize(generateRequest({ model: 'm', text: prompt }))
  expect(made!.tokens!.length).toBeGreaterThan(8_000)
  expect(made!.tokens).toEqual(short!.tokens)
  await service.close()
})

it('a model may have a renderer of its own: its text becomes the tokens of a chat', async () => {
  const service = new TokenService()
  await service.setModel('m', { path: 'test/fixtures/tinyllama' })
  const row = endpointRows.find(({ endpoint }) => endpoint === 'chat_completions')!
  const chat = (content: string): PromptRequest => ({
    ...generateRequest({ model: 'm', messages: [{ role: 'user', content }] }),
    row,
  })
  const tokenizer = createServiceTokenizer(service, {
    model: 'm',
    render: ({ body }) => {
      const [{ content }] = body['messages'] as [{ content: string }]
      if (content === 'odd') throw new Error('it has no place for that')
      return content === 'unknown' ? undefined : `<s>[mine]${content}</s>`
    },
  })
  const made = await tokenizer.tokenize(chat('hello'))
  const [begin, mine, end] = [1, [29961, 24669, 29962, 12199], 2] // special tokens are read where they stand, and none is added
  expect([...made!.tokens!]).toEqual([begin, ...mine, end])
  const whyOf = async (request: PromptRequest): Promise<unknown> => (await tokenizer.tokenize(request))?.howKnown
  expect(await whyOf(chat('unknown'))).toMatchObject({ loadOnly: 'own-renderer' })
  expect(await whyOf(chat('odd'))).toMatchObject({ loadOnly: 'template-failed' })
  expect(await whyOf({ ...chat('hello'), body: undefined })).toMatchObject({ loadOnly: 'too-long' })
  expect(service.counts.prompts['m']!.loadOnly).toEqual({ 'own-renderer': 1, 'template-failed': 1, 'too-long': 1 })
  const text = await tokenizer.tokenize(generateRequest({ model: 'm', text: 'hello' }))
  expect(text!.tokens!.length).toBeLessThan(made!.tokens!.length) // texts are nobody's to render
  await service.close()
})

function generateRequest(body: Readonly<Record<string, unknown>> | undefined): PromptRequest {
  const row = endpointRows.find(({ endpoint }) => endpoint === 'generate')!
  return { row, model: 'm', blockSize: 16, body, bytes: new Uint8Array(0), signal: new AbortController().signal }
}
