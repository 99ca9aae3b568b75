// Goal: models that answer with numbers are served through the client that people use, and nothing reaches them that they
// cannot do: a request for text ends an SGLang that pools.
// Method: the real client against simulated servers of each engine and task, through a gateway of its own.
import OpenAI from 'openai'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { SimTask } from '../../src/sim/index.js'
import type { SimHouse } from './sim-house.js'
import { openSimHouse } from './sim-house.js'

type Engine = 'vllm' | 'sglang'

function servedBy(engine: Engine, task: SimTask): () => { readonly openai: OpenAI; readonly house: SimHouse } {
  let house: SimHouse
  let openai: OpenAI
  beforeAll(async () => {
    house = await openSimHouse([engine, engine], {}, { task }, { generates: false })
    openai = new OpenAI({ baseURL: `${house.url}/v1`, apiKey: 'none', maxRetries: 0 })
  })
  afterAll(() => house.close())
  return () => ({ openai, house })
}

describe.each<Engine>(['vllm', 'sglang'])('a simulated %s that embeds', (engine) => {
  const served = servedBy(engine, 'embed')

  it('gives embeddings as numbers, whichever way they travel', async () => {
    const { openai } = served()
    const input = 'The sea is calm tonight.'
    const travelled = await openai.embeddings.create({ model: 'sim', input }) // the client asks for base64
    const written = await openai.embeddings.create({ model: 'sim', input, encoding_format: 'float' })
    expect(travelled.data[0]!.embedding).toHaveLength(64)
    expect(travelled.data[0]!.embedding).toEqual(written.data[0]!.embedding)
    expect(travelled.usage.prompt_tokens).toBeGreaterThan(4)
  })

  it('gives one for each of several, texts and tokens', async () => {
    const { openai } = served()
    const texts = await openai.embeddings.create({ model: 'sim', input: ['calm', 'rough', 'calm'] })
    expect(texts.data.map(({ index }) => index)).toEqual([0, 1, 2])
    expect(texts.data[0]!.embedding).toEqual(texts.data[2]!.embedding)
    expect(texts.data[0]!.embedding).not.toEqual(texts.data[1]!.embedding)
    const ids = await openai.embeddings.create({
      model: 'sim',
      input: [
        [5, 6, 7],
        [8, 9],
      ],
    })
    expect(ids.usage.prompt_tokens).toBe(5)
  })

  it('goes back to the worker that read the same text before', async () => {
    const { openai } = served()
    const input = 'A keeper of a lighthouse wrote to his sister. '.repeat(30)
    const ask = () => openai.embeddings.create({ model: 'sim', input }).asResponse()
    const workers = [(await ask()).headers, (await ask()).headers].map((it) => it.get('x-warmroute-worker-id'))
    expect(workers[1]).toBe(workers[0])
  })

  it('says what is wrong with an input', async () => {
    const { openai } = served()
    await expect(openai.embeddings.create({ model: 'sim', input: [] })).rejects.toMatchObject({ status: 400 })
    await expect(openai.embeddings.create({ model: 'sim', input: 'x', dimensions: 8 })).rejects.toMatchObject({
      status: 400,
    })
  })

  it('is never asked for text', async () => {
    const { openai, house } = served()
    const refused = { status: 404, code: 'WR_ROUTE_NOT_FOUND' }
    const messages = [{ role: 'user' as const, content: 'x' }]
    await expect(openai.chat.completions.create({ model: 'sim', messages })).rejects.toMatchObject(refused)
    await expect(openai.completions.create({ model: 'sim', prompt: 'x' })).rejects.toMatchObject(refused)
    await expect(openai.responses.create({ model: 'sim', input: 'x' })).rejects.toMatchObject(refused)
    await expect(
      openai.chat.completions.create({ model: 'sim', messages }, { headers: { 'x-worker-instance-id': '2' } }),
    ).rejects.toMatchObject(refused)
    for (const { url } of house.engines) expect((await fetch(`${url}/health`)).status).toBe(200)
  })
})

describe('a simulated vLLM', () => {
  describe.each<SimTask>(['embed', 'score'])('that can %s', (task) => {
    const served = servedBy('vllm', task)

    it.each(['/score', '/v1/score'])('scores pairs of texts: %s', async (path) => {
      const { openai, house } = served()
      const { data, usage } = await openai.post<Scores>(house.url + path, {
        body: { model: 'sim', text_1: 'sea', text_2: ['sea', 'mountain'] },
      })
      expect(data.map(({ index }) => index)).toEqual([0, 1])
      if (task === 'embed') expect(data[0]!.score).toBeCloseTo(1, 5)
      expect(usage.prompt_tokens).toBeGreaterThan(3)
    })

    it.each(['/rerank', '/v1/rerank'])('ranks documents: %s', async (path) => {
      const { openai, house } = served()
      const body = { model: 'sim', query: 'sea', documents: ['mountain', 'sea', 'desert'], top_n: 2 }
      const { results } = await openai.post<Ranking>(house.url + path, { body })
      expect(results).toHaveLength(2)
      expect(results[0]!.relevance_score).toBeGreaterThanOrEqual(results[1]!.relevance_score)
      if (task === 'embed') expect(results[0]!.document.text).toBe('sea')
    })

    it.each(['/pooling', '/v1/pooling'])('pools: %s', async (path) => {
      const { openai, house } = served()
      const { data } = await openai.post<Pooled>(house.url + path, { body: { model: 'sim', input: ['sea', 'calm'] } })
      expect(data.map((item) => item.data.length)).toEqual(task === 'embed' ? [64, 64] : [1, 1])
    })
  })

  describe('that can classify', () => {
    const served = servedBy('vllm', 'classify')

    it.each(['/classify', '/v1/classify'])('names a label: %s', async (path) => {
      const { openai, house } = served()
      const { data } = await openai.post<Classes>(house.url + path, { body: { model: 'sim', input: ['sea', 'calm'] } })
      for (const { label, probs, num_classes: count } of data) {
        expect(count).toBe(3)
        expect(label).toBe(`LABEL_${probs.indexOf(Math.max(...probs))}`)
        expect(probs.reduce((sum, value) => sum + value, 0)).toBeCloseTo(1, 5)
      }
    })

    it('has no scores, and says so itself', async () => {
      const { openai, house } = served()
      const body = { model: 'sim', text_1: 'sea', text_2: 'calm' }
      await expect(openai.post(`${house.url}/v1/score`, { body })).rejects.toMatchObject({ status: 404 })
    })
  })
})

describe('a simulated SGLang', () => {
  describe.each<SimTask>(['score', 'classify'])('that can %s', (task) => {
    const served = servedBy('sglang', task)

    it.each(['/score', '/v1/score'])('scores items: %s', async (path) => {
      const { openai, house } = served()
      const body = { model: 'sim', query: 'sea', items: ['calm', 'rough'] }
      const { scores } = await openai.post<{ scores: number[][] }>(house.url + path, { body })
      expect(scores.map(({ length }) => length)).toEqual(task === 'score' ? [1, 1] : [3, 3])
    })

    it.each(['/rerank', '/v1/rerank'])('ranks documents: %s', async (path) => {
      const { openai, house } = served()
      const body = { model: 'sim', query: 'sea', documents: ['calm', 'rough', 'dry'], top_n: 2 }
      const ranked = await openai.post<{ score: number; document: string; index: number }[]>(house.url + path, { body })
      expect(ranked).toHaveLength(2)
      expect(ranked[0]!.score).toBeGreaterThanOrEqual(ranked[1]!.score)
      expect(ranked[0]!.document).toBe(body.documents[ranked[0]!.index])
    })

    it('names a label', async () => {
      const { openai } = served()
      const { data } = await openai.post<Classes>('/classify', { body: { model: 'sim', input: 'sea' } })
      expect(data[0]!.label).toMatch(/^LABEL_\d$/)
    })

    it('gives raw numbers on its own route', async () => {
      const { openai, house } = served()
      const body = { model: 'sim', text: 'sea' }
      const answer = await openai.post<{ embedding: number[] }>(`${house.url}/classify`, { body })
      expect(answer.embedding).toHaveLength(task === 'score' ? 1 : 3)
    })

    it.each(['/pooling', '/v1/pooling'])('has no %s: that is said at once', async (path) => {
      const { openai, house } = served()
      await expect(openai.post(house.url + path, { body: { model: 'sim', input: 'sea' } })).rejects.toMatchObject({
        status: 404,
        code: 'WR_ROUTE_NOT_FOUND',
      })
    })
  })
})

describe('both engines under one name', () => {
  let house: SimHouse
  let openai: OpenAI
  beforeAll(async () => {
    house = await openSimHouse(['vllm', 'sglang'])
    openai = new OpenAI({ baseURL: house.url, apiKey: 'none', maxRetries: 0 })
  })
  afterAll(() => house.close())

  it('a request goes to the one that has the route', async () => {
    for (let at = 0; at < 4; at++) {
      const body = { model: 'sim', text: `Once upon a time ${at}`, sampling_params: { max_new_tokens: 2 } }
      const { headers, status } = await openai.post('/generate', { body }).asResponse()
      expect({ status, worker: headers.get('x-warmroute-worker-id') }).toEqual({ status: 200, worker: '2' })
    }
  })

  it('one that is pinned elsewhere is told so', async () => {
    const options = { body: { model: 'sim', text: 'x' }, headers: { 'x-worker-instance-id': '1' } }
    await expect(openai.post('/generate', options)).rejects.toMatchObject({ status: 404, code: 'WR_ROUTE_NOT_FOUND' })
  })

  it('an SGLang that generates scores tokens', async () => {
    const body = { model: 'sim', query: 'sea', items: ['calm'], label_token_ids: [5, 6], apply_softmax: true }
    const options = { body, headers: { 'x-worker-instance-id': '2' } }
    const { scores } = await openai.post<{ scores: number[][] }>('/v1/score', options)
    expect(scores[0]!.reduce((sum, value) => sum + value, 0)).toBeCloseTo(1, 5)
  })
})

interface Scores {
  readonly data: readonly { readonly index: number; readonly score: number }[]
  readonly usage: { readonly prompt_tokens: number }
}

interface Ranking {
  readonly results: readonly {
    readonly index: number
    readonly document: { readonly text: string }
    readonly relevance_score: number
  }[]
}

interface Pooled {
  readonly data: readonly { readonly data: readonly number[] }[]
}

interface Classes {
  readonly data: readonly { readonly label: string; readonly probs: readonly number[]; readonly num_classes: number }[]
}
