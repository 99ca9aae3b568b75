// Goal: the tokens that the engines make of `/v1/responses` and `/v1/messages`, token for token, in every form that they convert.
// Method: 75 bodies over two templates, rendered by vLLM 0.32.0 and by the code of SGLang 0.5.23.
import { afterAll, describe, expect, it } from 'vitest'
import { loadModel } from '../model/loaded-model.js'
import { ModelTokens } from '../model/model-tokens.js'
import { TokenPool } from '../pool/pool.js'
import { tinyllamaFolder } from '../real-tokenizers.case.js'
import { parseTemplate } from '../template/parse.js'
import { recordedRoutes } from './recorded-routes.case.js'
import type { Body } from './request.js'

const pool = new TokenPool({ threads: 1 })
const loaded = loadModel(tinyllamaFolder, 'routes')
afterAll(() => pool.close())

describe.each(['vllm', 'sglang'] as const)('%s', (dialect) => {
  const lines = recordedRoutes(dialect)
  const models = new Map(lines.flatMap(({ template, source }) => (source ? [[template, modelOf(source)]] : [])))
  const cases = lines.filter(({ request }) => request !== undefined)

  function modelOf(source: string, reasoningParser: string | null = null): ModelTokens {
    const templates = [{ name: 'default', source, parsed: parseTemplate(source) }]
    return new ModelTokens({ ...loaded, templates }, pool, { rules: { dialect, reasoningParser } })
  }

  it('has two templates and every form', () => {
    expect(models.size).toBe(2)
    expect(cases.filter(({ token_ids: ids }) => ids).length).toBeGreaterThan(138)
  })

  it.each(cases)('$template: $route: $name', async ({ template, route, request, token_ids: wanted }) => {
    const raw = new TextEncoder().encode(JSON.stringify(request))
    const tokens = models.get(template)!.tokenize(route, request, { raw })
    if (wanted) expect([...(await tokens).ids]).toEqual(wanted)
    else await expect(tokens).rejects.toThrow()
  })

  it('has other tokens for 1.0 than for 1 among the arguments of a call', async () => {
    const ids = async (number: string): Promise<number[]> => {
      const use = `{"type":"tool_use","id":"c","name":"f","input":{"x":${number}}}`
      const text = `{"messages":[{"role":"user","content":"x"},{"role":"assistant","content":[${use}]},{"role":"user","content":"y"}]}`
      const raw = new TextEncoder().encode(text)
      return [...(await models.get('parts')!.tokenize('messages', JSON.parse(text) as Body, { raw })).ids]
    }
    expect(await ids('1.0')).not.toEqual(await ids('1'))
  })
})
