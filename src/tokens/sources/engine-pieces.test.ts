// Goal: a prompt of which the engine encoded only the new end has the tokens of the whole prompt, whatever came before it.
// Method: conversations grow, are edited, cut and mixed; an engine made of a real tokenizer answers, and is asked for the whole, too.
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { prose, tokenizerFolder } from '../../../bench/tokens/texts.js'
import { WarmrouteError } from '../../core/protocol/index.js'
import { plainRules } from '../chat/build-prompt.js'
import type { Body, Route } from '../chat/request.js'
import { words } from '../model/edits.case.js'
import { loadModel, readShared } from '../model/loaded-model.js'
import { tinyllamaFolder } from '../real-tokenizers.case.js'
import { parseTemplate } from '../template/parse.js'
import type { EncoderPlan } from '../vocabulary/plan.js'
import { EnginePieces } from './engine-pieces.js'
import { learnPieces } from './learn-pieces.js'
import type { LearnParts } from './learn-pieces.js'
import type { ToldEngine } from './learnt-engine.case.js'
import { toldEngine } from './learnt-engine.case.js'
import { harmonyMarks } from './own-renderers.js'

const models = [
  { name: 'Qwen3', loaded: loadModel(tokenizerFolder('qwen3'), 'e1') },
  { name: 'Llama 3', loaded: loadModel(tokenizerFolder('llama3'), 'e2') },
  { name: 'DeepSeek V3', loaded: loadModel(tokenizerFolder('deepseek_v3'), 'e3') },
  { name: 'TinyLlama, marked once', loaded: loadModel(tinyllamaFolder, 'e4') },
  { name: 'TinyLlama, marked at sections', loaded: loadModel(tinyllamaFolder, 'e5', 'switched') },
]
const [{ loaded: qwen3 }] = models as [(typeof models)[0]]

const partsOf = (engine: ToldEngine): LearnParts => ({
  rules: plainRules,
  bytesMax: 1 << 20,
  renderMsMax: 60_000,
  parse: async (templates) => templates.map((it) => ({ ...it, parsed: parseTemplate(it.source) })),
  askInfo: async () => ({ status: 200, value: engine.info }),
  encode: async (text, addSpecialTokens) => engine.encode(text, addSpecialTokens),
})

async function learn(engine: ToldEngine, more: Partial<LearnParts> = {}): Promise<EnginePieces> {
  const learnt = await learnPieces({ ...partsOf(engine), ...more })
  if (!(learnt instanceof EnginePieces)) throw new Error(learnt.reason)
  return learnt
}

/** What the pieces give, and how many characters the engine was asked to encode for it. */
async function ask(
  pieces: EnginePieces,
  engine: ToldEngine,
  route: Route,
  body: Body,
): Promise<{ readonly ids: readonly number[] | undefined; readonly asked: string[] }> {
  const prompt = pieces.textOf(route, body)
  if (!prompt) throw new Error('there is no text')
  const asked: string[] = []
  const said = await pieces.idsOf(
    prompt,
    async () => {
      asked.push('whole')
      return { ids: engine.render(route, body), exactness: 'proven' }
    },
    async (text) => {
      asked.push(text)
      return engine.encode(text, false)
    },
  )
  return { ids: said && [...said.ids], asked }
}

interface Message {
  readonly role: string
  readonly content: string
}
const neverChecked = { checkedFirst: 0, checkedEvery: Infinity }
const anyMessage: fc.Arbitrary<Message> = fc.record({
  role: fc.constantFrom('user', 'assistant'),
  content: fc.array(fc.constantFrom(...words), { maxLength: 6 }).map((it) => it.join('')),
})
const anyChat = fc.nat({ max: 2 })
type Step =
  | { readonly kind: 'say'; readonly chat: number; readonly messages: readonly Message[] }
  | { readonly kind: 'forget'; readonly chat: number; readonly count: number }
  | { readonly kind: 'copy'; readonly chat: number; readonly from: number }
const anyStep: fc.Arbitrary<Step> = fc.oneof(
  {
    weight: 5,
    arbitrary: fc.record({
      kind: fc.constant('say' as const),
      chat: anyChat,
      messages: fc.array(anyMessage, { minLength: 1, maxLength: 3 }),
    }),
  },
  {
    weight: 1,
    arbitrary: fc.record({ kind: fc.constant('forget' as const), chat: anyChat, count: fc.nat({ max: 3 }) }),
  },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant('copy' as const), chat: anyChat, from: anyChat }) },
)

function apply(chats: Message[][], step: Step): void {
  if (step.kind === 'say') chats[step.chat]!.push(...step.messages)
  else if (step.kind === 'forget') chats[step.chat]!.splice(-step.count)
  else chats[step.chat] = [...chats[step.from]!]
}

/** The same conversation on every route that has a text. */
function requestOf(route: Route, chat: readonly Message[]): Body {
  const messages = [{ role: 'user', content: prose(150, 1) }, ...chat]
  if (route === 'chat' || route === 'messages') return { messages } as unknown as Body
  if (route === 'responses') return { input: messages } as unknown as Body
  return { prompt: messages.map(({ role, content }) => `<|im_start|>${role}\n${content}<|im_end|></s>`).join('\n') }
}

describe.each(models)('$name', ({ loaded }) => {
  const engine = toldEngine(loaded)
  it.each([
    { says: 'in a memory that holds all', bytesMax: 1 << 20, runs: 25 },
    { says: 'in one that evicts', bytesMax: 12_000, runs: 25 },
  ])('pieces give the tokens of the whole, $says', async ({ bytesMax, runs }) => {
    let continued = 0
    await fc.assert(
      fc.asyncProperty(
        fc.array(anyStep, { maxLength: 12 }),
        fc.constantFrom<Route>('chat', 'completions', 'responses', 'messages'),
        async (steps, route) => {
          const pieces = await learn(engine, { bytesMax, ...neverChecked })
          const chats: Message[][] = [[], [], []]
          for (const step of steps) {
            apply(chats, step)
            const body = requestOf(route, chats[step.chat]!)
            const { ids } = await ask(pieces, engine, route, body)
            expect(ids).toEqual([...engine.render(route, body)])
            expect(pieces.byteLength).toBeLessThanOrEqual(bytesMax)
          }
          continued += pieces.counts.continued
        },
      ),
      { numRuns: runs },
    )
    expect(continued).toBeGreaterThan(20)
  })
})

describe('a conversation that goes on', () => {
  const engine = toldEngine(qwen3)
  const messages: Message[] = [
    { role: 'system', content: prose(400, 3) },
    { role: 'user', content: 'Who are you?' },
  ]
  const more = (count: number): Body =>
    ({
      messages: [
        ...messages,
        ...Array.from({ length: count }, (_, index) => ({
          role: index % 2 ? 'user' : 'assistant',
          content: `turn ${index}`,
        })),
      ],
    }) as unknown as Body

  it('is asked for from the last special token on that both texts have', async () => {
    const pieces = await learn(engine, neverChecked)
    expect((await ask(pieces, engine, 'chat', more(0))).asked).toEqual(['whole'])
    const { ids, asked } = await ask(pieces, engine, 'chat', more(2))
    expect(asked).toEqual([
      '<|im_start|>assistant\nturn 0<|im_end|>\n<|im_start|>user\nturn 1<|im_end|>\n<|im_start|>assistant\n',
    ])
    expect(ids).toEqual([...engine.render('chat', more(2))])
    const askedBytes = Buffer.byteLength(asked[0]!)
    const knownBytes = Buffer.byteLength(pieces.textOf('chat', more(2))!.text) - askedBytes
    expect(pieces.counts).toMatchObject({ askedBytes, knownBytes })
    expect((await ask(pieces, engine, 'chat', more(2))).asked).toEqual([]) // nothing is new
    expect(pieces.counts).toMatchObject({ continued: 2, whole: 1, checked: 0, refuted: 0, hits: 2, misses: 1 })
  })

  it('is checked at first, and then now and then', async () => {
    const pieces = await learn(engine, { checkedFirst: 2, checkedEvery: 4 })
    for (let turn = 0; turn < 13; turn++) await ask(pieces, engine, 'chat', more(turn))
    expect(pieces.counts).toMatchObject({ continued: 12, whole: 1, checked: 5, refuted: 0 })
  })

  it.each([
    {
      says: 'renders otherwise than it tells',
      liar: { ...engine, info: { ...engine.info, chat_template: `${String(engine.info['chat_template'])} ` } },
    },
    {
      says: 'encodes an end otherwise when it stands alone',
      liar: { ...engine, encode: (text: string) => engine.encode(text.replace('turn 0', 'turn 9'), false) },
    },
    {
      says: 'does not see the token that an end begins with',
      liar: {
        ...engine,
        encode: (text: string) => engine.encode(text.includes('turn') ? text.replace('<|', '< |') : text, false),
      },
    },
  ])('is never pieced together again for an engine that $says', async ({ liar }) => {
    const pieces = await learn(liar)
    await ask(pieces, liar, 'chat', more(0))
    const { ids } = await ask(pieces, liar, 'chat', more(2))
    expect(ids).toBeUndefined() // the caller asks for the whole
    expect(pieces.counts).toMatchObject({ continued: 0, refuted: 1 })
    expect(pieces.byteLength).toBe(0)
    expect(pieces.textOf('chat', more(2))).toBeUndefined()
  })

  it('is not pieced together where the engine does not see the token that an end begins with, also where nobody checks', async () => {
    const pieces = await learn(engine, neverChecked)
    const blind = { ...engine, encode: (text: string) => engine.encode(text.replace('<|', '< |'), false) }
    await ask(pieces, blind, 'chat', more(0))
    expect((await ask(pieces, blind, 'chat', more(2))).ids).toBeUndefined()
    expect(pieces.isRefuted).toBe(true)
  })

  it('is neither given nor remembered when pieces were refuted meanwhile', async () => {
    const pieces = await learn(engine, neverChecked)
    await ask(pieces, engine, 'chat', more(0))
    const answers: (() => void)[] = []
    const later = <T>(value: T): Promise<T> => new Promise((resolve) => answers.push(() => resolve(value)))
    const idsOf = (body: Body): ReturnType<EnginePieces['idsOf']> =>
      pieces.idsOf(
        pieces.textOf('chat', body)!,
        () => later({ ids: engine.render('chat', body), exactness: 'proven' as const }),
        (text) => later(engine.encode(text, false)),
      )
    const continued = idsOf(more(2))
    const whole = idsOf({ messages: [{ role: 'user', content: prose(400, 9) }] } as unknown as Body)
    const blind = { ...engine, encode: () => new Uint32Array([5]) }
    expect((await ask(pieces, blind, 'chat', more(4))).ids).toBeUndefined()
    for (const answer of answers) answer()
    expect(await continued).toBeUndefined()
    expect(await whole).toBeDefined() // that one the engine said itself
    expect(pieces.byteLength).toBe(0)
  })

  it('with special tokens around it is not taken for the same text without, nor the other way round', async () => {
    const tiny = toldEngine(models[3]!.loaded)
    const pieces = await learn(tiny, neverChecked)
    const prompt = `${prose(300, 5)}</s>and on`
    for (const add_special_tokens of [true, false, true, false]) {
      const body = { prompt, add_special_tokens }
      const { ids } = await ask(pieces, tiny, 'completions', body)
      expect(ids).toEqual([...tiny.render('completions', body)])
    }
    expect(pieces.counts).toMatchObject({ whole: 2, continued: 2 })
  })

  describe('with special tokens before and behind it', () => {
    const [{ loaded: tiny }] = models.slice(3) as [(typeof models)[0]]
    const plan = { ...(JSON.parse(readShared(tiny.plan)) as EncoderPlan), specialsAfter: [2] }
    const spelled = new TextEncoder().encode(JSON.stringify(plan))
    const shared = new SharedArrayBuffer(spelled.length)
    new Uint8Array(shared).set(spelled)
    const around = toldEngine({ ...tiny, plan: shared })
    const bodies = ['and on', 'and on', 'and on and on'].map((end) => ({ prompt: `${prose(300, 5)}</s>${end}` }))

    it('has them around its pieces', async () => {
      const pieces = await learn(around, neverChecked)
      for (const body of bodies) {
        expect((await ask(pieces, around, 'completions', body)).ids).toEqual([...around.render('completions', body)])
      }
      expect(pieces.counts).toMatchObject({ whole: 1, continued: 2 })
    })

    it.each([
      { says: 'before', cut: (ids: Uint32Array) => ids.slice(1) },
      { says: 'behind', cut: (ids: Uint32Array) => ids.slice(0, -1) },
    ])('is not remembered from an answer without those $says it', async ({ cut }) => {
      const pieces = await learn(around, neverChecked)
      const liar: ToldEngine = { ...around, render: (route, body) => cut(around.render(route, body)) }
      for (const body of bodies) expect((await ask(pieces, liar, 'completions', body)).asked).toEqual(['whole'])
    })
  })

  it('is checked for each kind of request', async () => {
    const pieces = await learn(engine, { checkedFirst: 1, checkedEvery: Infinity })
    for (let turn = 0; turn < 4; turn++) await ask(pieces, engine, 'chat', more(turn))
    expect(pieces.counts.checked).toBe(1)
    await ask(pieces, engine, 'chat', { ...more(4), chat_template_kwargs: { like: 'this' } })
    expect(pieces.counts).toMatchObject({ continued: 4, checked: 2 })
  })

  it('is left to the engine where it is not known what stands around a text', async () => {
    const pieces = await learn(engine, {
      // Twice the same: either could be the text.
      encode: async (text, isWrapped) => {
        const ids = engine.encode(text, false)
        return isWrapped ? Uint32Array.from([...ids, ...ids]) : ids
      },
    })
    expect(pieces.textOf('completions', { prompt: 'hello' })).toBeUndefined()
    expect(pieces.textOf('chat', more(0))).toBeDefined()
  })

  it('is left to the engine where it takes the loop longer than a few milliseconds to read or render', async () => {
    const parameters = Array.from({ length: 400_000 }, () => 1)
    const long = { ...more(0), tools: [{ type: 'function', function: { name: 'f', parameters } }] }
    expect((await learn(engine)).textOf('chat', long)).toBeDefined()
    expect((await learn(engine, { renderMsMax: undefined })).textOf('chat', long)).toBeUndefined()
    const wide = Object.fromEntries(parameters.slice(0, 2000).map((_, at) => [`key ${at}`, at]))
    expect((await learn(engine)).textOf('chat', { ...more(0), chat_template_kwargs: wide })).toBeUndefined()
  })

  const telling = (chat_template: string): Partial<LearnParts> => ({
    askInfo: async () => ({ status: 200, value: { ...engine.info, chat_template } }),
  })

  it.each([
    { says: 'writes', template: '{% for it in range(64) %}{{ messages[0].content }}{% endfor %}', most: 20_000 },
    { says: 'works', template: '{% for it in range(messages[0].content | length) %}{% endfor %}', most: 10_000 },
  ])('is left to the engine where its template $says more than it may on the loop', async ({ template, most }) => {
    const pieces = await learn(engine, telling(template))
    const said = (length: number): Body => ({ messages: [{ role: 'user', content: 'x'.repeat(length) }] })
    expect(pieces.textOf('chat', said(most))).toBeDefined()
    expect(pieces.textOf('chat', said(2 * most + 1))).toBeUndefined()
  })

  it('is proven, but not where its template shows the date, which may be another to the engine', async () => {
    const dated = `{{ strftime_now('%Y') }}${String(engine.info['chat_template'])}`
    expect((await learn(engine)).textOf('chat', more(0))).toMatchObject({ isProven: true })
    expect((await learn(engine, telling(dated))).textOf('chat', more(0))).toMatchObject({ isProven: false })
  })

  it.each<{ says: string; route: Route; body: object }>([
    { says: 'with an image', route: 'chat', body: { messages: [{ role: 'user', content: [{ type: 'image_url' }] }] } },
    { says: 'with a template of its own', route: 'chat', body: { ...more(0), chat_template: '{{ 1 }}' } },
    { says: 'that is cut to a length', route: 'chat', body: { ...more(0), truncate_prompt_tokens: 5 } },
    { says: 'of several prompts', route: 'completions', body: { prompt: ['a', 'b'] } },
    { says: 'with half a surrogate pair', route: 'completions', body: { prompt: 'a\ud800' } },
    { says: 'that is none', route: 'chat', body: {} },
  ])('is left to the engine, a request $says', async ({ route, body }) => {
    expect((await learn(engine)).textOf(route, body as Body)).toBeUndefined()
  })
})

it.each([
  {
    says: 'does not tell',
    askInfo: async () => ({ status: 404, value: undefined }),
    reason: '--enable-tokenizer-info',
  },
  {
    says: 'tells no added tokens',
    askInfo: async () => ({ status: 200, value: { tokenizer_class: 'X' } }),
    reason: 'no added tokens',
  },
  { says: 'answers nonsense', askInfo: async () => ({ status: 200, value: [] }), reason: 'no added tokens' },
  { says: 'fails', askInfo: () => Promise.reject(new Error('gone')), reason: 'gone' },
  { says: 'finds its tokens nowhere', encode: async () => new Uint32Array([5]), reason: 'certain' },
  {
    says: 'has a template that cannot be read',
    askInfo: async () => ({ status: 200, value: { ...toldEngine(qwen3).info, chat_template: '{% if %}' } }),
    reason: 'learnt',
  },
])('an engine that $says is asked for the whole of everything', async ({ reason, ...parts }) => {
  await expect(learn(toldEngine(qwen3), parts)).rejects.toThrow(reason)
})

it('an engine is taken to render by code of its own where it has all marks of it, and not where it has some', async () => {
  const engine = toldEngine(qwen3)
  const learnt = (marks: readonly string[]): ReturnType<typeof learnPieces> => {
    const more = Object.fromEntries(marks.map((mark, at) => [String(200_000 + at), mark]))
    const added = { ...(engine.info['added_tokens_decoder'] as object), ...more }
    const value = { ...engine.info, added_tokens_decoder: added }
    return learnPieces({ ...partsOf(engine), askInfo: async () => ({ status: 200, value }) })
  }
  expect(await learnt(harmonyMarks.slice(1))).toBeInstanceOf(EnginePieces)
  expect(await learnt(harmonyMarks)).toMatchObject({ reason: expect.stringContaining('code of its own') as never })
})

const answering = (status: number): Partial<LearnParts> => ({ askInfo: async () => ({ status, value: undefined }) })
const failing = (error: Error): Partial<LearnParts> => ({ parse: () => Promise.reject(error) })

it.each<{ says: string; parts: Partial<LearnParts>; mayPass: boolean }>([
  { says: 'fails', parts: answering(500), mayPass: true },
  { says: 'is late', parts: answering(408), mayPass: true },
  { says: 'is asked too often', parts: answering(429), mayPass: true },
  { says: 'does not tell', parts: answering(404), mayPass: false },
  { says: 'tells it to others', parts: answering(401), mayPass: false },
  { says: 'is gone', parts: { askInfo: () => Promise.reject(new Error('gone')) }, mayPass: true },
  { says: 'is not heard to its end', parts: failing(new WarmrouteError('WR_TOKENS_DEADLINE')), mayPass: true },
  {
    says: 'has a template that is none',
    parts: failing(new WarmrouteError('WR_TOKENS_TEMPLATE_FAILED')),
    mayPass: false,
  },
])('an engine that $says is asked again: $mayPass', async ({ parts, mayPass }) => {
  const engine = toldEngine(qwen3)
  expect(await learnPieces({ ...partsOf(engine), ...parts })).toMatchObject({ mayPass })
})
