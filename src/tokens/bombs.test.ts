// Goal: whatever a client sends, each of five real tokenizers ends with its tokens or with a reason. The bench `tokens.stalls` times the same inputs.
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { BombedModel } from '../../bench/tokens/bombs.js'
import { bombedModels, chatBombs, textBombs } from '../../bench/tokens/bombs.js'
import { TokenService } from './token-service.js'
import { Tokens } from './tokens.js'

const names = Object.keys(bombedModels) as BombedModel[]
const service = new TokenService({ threads: 1 })
const deadlineMs = 50_000
const bytes = 100_000

beforeAll(async () => {
  for (const name of names) await service.setModel(name, { path: bombedModels[name].folder })
}, 60_000)
afterAll(() => service.close())

describe.each(names)('%s', (model) => {
  it.each(Object.entries(textBombs(model)))(
    'encodes 100 KB of %s',
    async (_name, make) => {
      const prompt = make(bytes, 1)
      const raw = Buffer.from(JSON.stringify({ prompt }))
      const tokens = await service.tokenizeRequest(model, 'completions', undefined, { raw, deadlineMs })
      expect(tokens).toBeInstanceOf(Tokens)
      expect((tokens as Tokens).ids.length).toBeGreaterThan(0)
    },
    60_000,
  )

  it('answers every chat that is meant to hurt, or says why not', async () => {
    const usual = model === 'gpt2' ? 'no-template' : 'tokens'
    for (const [name, body] of Object.entries(chatBombs(bytes, 1))) {
      const raw = Buffer.from(JSON.stringify(body))
      const result = await service.tokenizeRequest(model, 'chat', undefined, { raw, deadlineMs })
      const wanted = name === 'deeply nested tools' ? 'too-long' : usual
      expect(result instanceof Tokens ? 'tokens' : result.loadOnly, name).toBe(wanted)
    }
  }, 60_000)
})
