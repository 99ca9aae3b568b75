// Goal: the tokens that engines make of requests that nobody writes by hand: empty and null parts, parts with fields of their own, tools of a
// developer, arguments that are settings of the renderer, tools that are an empty list, references, prompts that are cut short, switches and
// numbers that are spelled as texts, calls without an id.
// Method: requests made at random and what `vllm launch render` (0.32.0) made of them, and the code of SGLang 0.5.23, under templates that
// print all that they are given.
import { readFileSync } from 'node:fs'
import { gunzipSync } from 'node:zlib'
import { afterAll, describe, expect, it } from 'vitest'
import { loadModel } from '../model/loaded-model.js'
import { ModelTokens } from '../model/model-tokens.js'
import { TokenPool } from '../pool/pool.js'
import { tinyllamaFolder } from '../real-tokenizers.case.js'
import { parseTemplate } from '../template/parse.js'
import type { Body, Dialect, Route } from './request.js'

interface Line {
  readonly template: string
  /** Of the line that tells the template. */
  readonly source?: string
  readonly route: Route
  /** `--reasoning-parser` of that SGLang, where it had one. */
  readonly parser?: string
  /** As it was sent: `1.0` is not `1`. */
  readonly request_text: string
  readonly token_ids: readonly number[]
  /** Of all prompts of a batch. */
  readonly total?: number
}

function linesOf(dialect: Dialect): readonly Line[] {
  const bytes = readFileSync(new URL(`../../../test/fixtures/${dialect}/odd-shapes.jsonl.gz`, import.meta.url))
  const lines = gunzipSync(bytes).toString('utf8').trim().split('\n')
  return lines.map((line) => JSON.parse(line) as Line)
}

const pool = new TokenPool({ threads: 1 })
afterAll(() => pool.close())

const loaded = loadModel(tinyllamaFolder, 'odd shapes')

type Find = (line: Line) => ModelTokens

function modelsOf(lines: readonly Line[], dialect: Dialect): Find {
  const sources = new Map(lines.flatMap(({ template, source }) => (source === undefined ? [] : [[template, source]])))
  const models = new Map<string, ModelTokens>()
  return ({ template, parser = null }) => {
    const key = `odd ${dialect} ${template} ${parser}`
    const source = sources.get(template)!
    const templates = [{ name: 'default', source, parsed: parseTemplate(source) }]
    const made =
      models.get(key) ??
      new ModelTokens({ ...loaded, key, templates }, pool, { rules: { dialect, reasoningParser: parser } })
    models.set(key, made)
    return made
  }
}

const routes = {
  vllm: ['chat', 'messages', 'responses', 'completions'],
  sglang: ['chat', 'messages', 'responses'],
} as const

/** What is longer than the model is cut, and how long that is only the engine knows. */
const isCutAtLimit = /"truncate_prompt_tokens": ?-1|"truncation": ?"auto"/

describe.each(['vllm', 'sglang'] as const)('%s', (dialect) => {
  const lines = linesOf(dialect)
  const recorded = lines.filter(({ source }) => source === undefined)
  const modelOf = modelsOf(lines, dialect)

  describe.each(routes[dialect])('%s', (route) => {
    const asked = recorded.filter((it) => it.route === route)

    it('is recorded', () => {
      expect(asked.length).toBeGreaterThan(15)
    })

    it.each(asked)('$template $request_text', async (line) => {
      const { request_text: text, token_ids: wanted, total } = line
      const raw = new TextEncoder().encode(text)
      const tokens = await modelOf(line).tokenize(route, JSON.parse(text) as Body, { raw })
      const exactness = dialect === 'vllm' && isCutAtLimit.test(text) ? 'expected' : 'proven'
      expect({ ids: [...tokens.ids], exactness: tokens.exactness }).toEqual({ ids: wanted, exactness })
      expect(tokens.totalCount).toBe(total ?? wanted.length)
    })
  })

  it('is as a thread reads it', async () => {
    for (const line of recorded) {
      const { route, request_text: text, token_ids: wanted } = line
      const { ids } = await modelOf(line).tokenize(route, undefined, { raw: new TextEncoder().encode(text) })
      expect([...ids], text).toEqual(wanted)
    }
  })
})
