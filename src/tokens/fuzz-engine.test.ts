// Goal: what compares us with engines at random sees a difference, says which request has it, and makes the same requests of the same seed.
// Method: an engine that is simulated by our own tokens, as it should be or with a template that is wrong in one place.
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, describe, expect, it } from 'vitest'
import { randomFrom } from '../../bench/tokens/texts.js'
import { requestAtRandom } from './engine-requests.case.js'
import type { AskEngine, EngineFindings, EngineFuzz } from './fuzz-engine.case.js'
import { engineRoutes, fuzzEngine } from './fuzz-engine.case.js'
import { smaller, spell } from './json-tree.case.js'
import { asLoadOnly } from './load-only.js'
import { loadModel } from './model/loaded-model.js'
import { ModelTokens } from './model/model-tokens.js'
import { TokenPool } from './pool/pool.js'
import { tinyllamaFolder } from './real-tokenizers.case.js'
import { parseTemplate } from './template/parse.js'

const pool = new TokenPool({ threads: 1 })
afterAll(() => pool.close())

const loaded = loadModel(tinyllamaFolder, 'fuzzed')
const source = readFileSync(join(tinyllamaFolder, 'chat_template.jinja'), 'utf8')

function modelOf(template: string): ModelTokens {
  const templates = [{ name: 'default', source: template, parsed: parseTemplate(template) }]
  return new ModelTokens({ ...loaded, key: template, templates }, pool)
}

const tokenizeBy =
  (model: ModelTokens): EngineFuzz['tokenize'] =>
  (route, body, raw) =>
    model.tokenize(route, body, { raw }).catch(asLoadOnly)

/** Of prompts that stand alone: of a batch we know no more than its first. */
const engineBy =
  (model: ModelTokens): AskEngine =>
  async (route, json) => {
    const said = await tokenizeBy(model)(route, undefined, Buffer.from(json))
    if ('loadOnly' in said) return undefined
    return [[...said.ids], ...Array.from({ length: said.promptCount - 1 }, (_, at) => idsOf(said.totalCount - said.ids.length, at))] // biome-ignore format: short
  }

function idsOf(count: number, at: number): number[] {
  return at === 0 ? Array.from({ length: count }, () => 0) : []
}

const fuzz = (template: string, cases: number): Promise<EngineFindings> =>
  fuzzEngine({
    model: 'm',
    seed: 1,
    cases,
    ask: engineBy(modelOf(template)),
    tokenize: tokenizeBy(modelOf(source)),
  })

it('nothing differs from an engine that does the same', async () => {
  const { counts, different } = await fuzz(source, 60)
  expect(different).toEqual([])
  for (const route of engineRoutes) {
    const { equal = 0, ...others } = counts[route]!
    expect(equal).toBeGreaterThan(15)
    expect(Object.keys(others)).toEqual(['refused by both'])
  }
}, 60_000)

it('a template that is wrong in one place is found, in a request with nothing in it that is not needed', async () => {
  const { counts, different } = await fuzz(source.replace('{{- tool | tojson }}', '{{- tool.function | tojson }}'), 60)
  expect(counts['chat']!['different']).toBeGreaterThan(3)
  expect(counts['completions']!['different']).toBe(undefined)
  const chat = different.find(({ route }) => route === 'chat')!
  expect(Object.keys(JSON.parse(chat.json) as object).sort()).toEqual(['messages', 'tools'])
  expect(chat.how).toContain('ids here')
  expect(different.map(({ json }) => json.length)).toEqual(
    different.map(({ json }) => json.length).sort((a, b) => a - b),
  )
}, 60_000)

describe('what is counted', () => {
  const one = async (ask: AskEngine, tokenize: EngineFuzz['tokenize']): Promise<EngineFindings['counts']> =>
    (await fuzzEngine({ model: 'm', seed: 1, cases: 1, routes: ['completions'], ask, tokenize })).counts
  const refused: EngineFuzz['tokenize'] = () => Promise.resolve({ loadOnly: 'malformed', detail: 'odd' })
  const own = tokenizeBy(modelOf(source))
  const taken: AskEngine = () => Promise.resolve([[1, 2]])
  const nothing: AskEngine = () => Promise.resolve(undefined)

  it.each([
    { says: 'refused by both', ask: nothing, tokenize: refused },
    { says: 'refused by the engine', ask: nothing, tokenize: own },
    { says: 'load-only malformed', ask: taken, tokenize: refused },
    { says: 'different', ask: taken, tokenize: own },
  ])('$says', async ({ says, ask, tokenize }) => {
    expect(await one(ask, tokenize)).toEqual({ completions: { [says]: 1 } })
  })
})

describe.each(engineRoutes)('requests of %s', (route) => {
  const made = (seed: number): string[] => {
    const random = randomFrom(seed)
    return Array.from({ length: 200 }, () => spell(requestAtRandom(route, 'm', random)))
  }

  it('are the same of the same seed, and others of another', () => {
    expect(made(1)).toEqual(made(1))
    expect(made(1)).not.toEqual(made(2))
  })

  it('are JSON, of many shapes, and get smaller one value at a time', () => {
    const all = made(3)
    for (const json of all) expect(JSON.parse(json)).toMatchObject({ model: 'm' })
    expect(new Set(all).size).toBeGreaterThan(190)
    const request = requestAtRandom(route, 'm', randomFrom(4))
    for (const less of smaller(request)) expect(spell(less).length).toBeLessThan(spell(request).length)
  })
})
