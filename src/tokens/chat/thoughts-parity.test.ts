// Goal: the tokens that an SGLang with a reasoning parser makes of thoughts and of the switch of thinking, token for token.
// Method: what the code of SGLang 0.5.23 made of them: every form under two templates and five settings, the marks of every
// parser, and 23 templates that show their switch in all the ways that SGLang knows, and in some that it does not.
import { afterAll, expect, it } from 'vitest'
import { loadModel } from '../model/loaded-model.js'
import { ModelTokens } from '../model/model-tokens.js'
import { TokenPool } from '../pool/pool.js'
import { tinyllamaFolder } from '../real-tokenizers.case.js'
import { parseTemplate } from '../template/parse.js'
import { convertMessages } from './convert-messages.js'
import { recordedThoughts } from './recorded-routes.case.js'
import { reasoningParserOf } from './reasoning-parsers.js'

const pool = new TokenPool({ threads: 1 })
const loaded = loadModel(tinyllamaFolder, 'thoughts')
afterAll(() => pool.close())

const lines = recordedThoughts()
const sources = new Map(lines.flatMap(({ template, source }) => (source ? [[template, source]] : [])))
/** An engine that encodes without a template can only be asked. */
const cases = lines.filter(({ template, request }) => request !== undefined && sources.has(template))
const isKnown = (parser: string | null): boolean => parser === null || reasoningParserOf(parser) !== undefined

function modelOf(template: string, reasoningParser: string | null | undefined): ModelTokens {
  const source = sources.get(template)!
  const templates = [{ name: 'default', source, parsed: parseTemplate(source) }]
  return new ModelTokens({ ...loaded, templates }, pool, { rules: { dialect: 'sglang', reasoningParser } })
}

it('has every form, and refusals', () => {
  expect(sources.size).toBe(25)
  expect(new Set(cases.map(({ parser }) => parser)).size).toBe(37)
  expect(cases.filter(({ token_ids: ids }) => ids === undefined).length).toBeGreaterThan(50)
})

it.each(cases.filter(({ parser }) => isKnown(parser)))('$template, $parser: $name', async (recorded) => {
  const tokens = modelOf(recorded.template, recorded.parser).tokenize('messages', recorded.request)
  if (recorded.token_ids) expect([...(await tokens).ids]).toEqual(recorded.token_ids)
  else await expect(tokens).rejects.toMatchObject({ reason: 'malformed' })
})

it.each(cases.filter(({ parser }) => !isKnown(parser)))(
  'says that it does not know: $parser: $name',
  async (recorded) => {
    const tokens = modelOf(recorded.template, recorded.parser).tokenize('messages', recorded.request)
    await expect(tokens).rejects.toMatchObject({ reason: 'engine-settings' })
  },
)

it('says that it does not know where the engine does not tell its parser', async () => {
  for (const { template, request } of cases.filter(({ name }) => name === 'a thought' || name === 'disabled'))
    await expect(modelOf(template, undefined).tokenize('messages', request)).rejects.toMatchObject({
      reason: 'engine-settings',
    })
})

it('asks once where thoughts go, however many turns think: an engine is asked again after so many', () => {
  let asks = 0
  const untold = (): never => expect.unreachable()
  const turn = { role: 'assistant', content: [{ type: 'thinking', thinking: 'Hm.' }] }
  const chat = convertMessages(
    { messages: [turn, turn, turn] },
    { dialect: 'sglang', reasoningParser: 'qwen3' },
    {
      takesThoughts: () => ++asks > 0,
      takesLateSystem: untold,
      effortOfNone: untold,
      thinkingSwitch: untold,
      hasLowEffort: untold,
    },
  )
  const thought = { role: 'assistant', reasoning_content: 'Hm.', content: '' }
  expect([chat, asks]).toEqual([{ messages: [thought, thought, thought] }, 1])
})
