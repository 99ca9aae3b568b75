// Goal: the tokens that engines make of requests that nobody writes by hand: empty and null parts, parts with fields of their own, tools of a
// developer, arguments that are settings of the renderer, tools that are an empty list, references, prompts that are cut short.
// Method: requests made at random and what `vllm launch render` (0.32.0) made of them, and of chats the code of SGLang 0.5.23, under templates
// that print all that they are given.
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

function modelsOf(lines: readonly Line[], dialect: Dialect): ReadonlyMap<string, ModelTokens> {
  return new Map(
    lines.flatMap(({ template, source }) => {
      if (source === undefined) return []
      const templates = [{ name: 'default', source, parsed: parseTemplate(source) }]
      const key = `odd ${dialect} ${template}`
      return [[template, new ModelTokens({ ...loaded, key, templates }, pool, { rules: { dialect } })] as const]
    }),
  )
}

const routes = { vllm: ['chat', 'messages', 'responses', 'completions'], sglang: ['chat'] } as const

describe.each(['vllm', 'sglang'] as const)('%s', (dialect) => {
  const lines = linesOf(dialect)
  const recorded = lines.filter(({ source }) => source === undefined)
  const models = modelsOf(lines, dialect)

  describe.each(routes[dialect])('%s', (route) => {
    const asked = recorded.filter((it) => it.route === route)

    it('is recorded', () => {
      expect(asked.length).toBeGreaterThan(15)
    })

    it.each(asked)('$template $request_text', async ({ template, request_text: text, token_ids: wanted, total }) => {
      const raw = new TextEncoder().encode(text)
      const tokens = await models.get(template)!.tokenize(route, JSON.parse(text) as Body, { raw })
      expect({ ids: [...tokens.ids], exactness: tokens.exactness }).toEqual({ ids: wanted, exactness: 'proven' })
      expect(tokens.totalCount).toBe(total ?? wanted.length)
    })
  })

  it('is as a thread reads it', async () => {
    for (const { template, route, request_text: text, token_ids: wanted } of recorded) {
      const { ids } = await models.get(template)!.tokenize(route, undefined, { raw: new TextEncoder().encode(text) })
      expect([...ids], text).toEqual(wanted)
    }
  })
})
