import { expect, it } from 'vitest'
import type { EngineFacts } from '../../engines/index.js'
import { rulesOf } from './prompt-rules.js'

function told<Value>(value: Value) {
  return { value, source: '/server_info' }
}

function engine(facts: Partial<EngineFacts>): EngineFacts {
  return { kind: told('sglang'), ...facts }
}

it('are those of an engine that is alone, or of several that say the same', () => {
  const said = engine({
    otherTemplates: told({ chats: 'so', texts: 'and so' }),
    reasoningParser: told('qwen3'),
    takesMedia: told(false),
  })
  for (const engines of [[said], [said, { ...said }]])
    expect(rulesOf(engines, 'sglang')).toEqual({
      dialect: 'sglang',
      otherTemplates: { chats: 'so', texts: 'and so' },
      reasoningParser: 'qwen3',
      takesMedia: false,
    })
})

it('know nothing of prompts that one engine builds otherwise, whichever it is', () => {
  const engines = [
    engine({ otherTemplates: told({}) }),
    engine({ otherTemplates: told({ chats: 'so' }) }),
    engine({ otherTemplates: told({ texts: 'and so' }) }),
  ]
  for (const all of [engines, engines.toReversed()])
    expect(rulesOf(all, 'sglang').otherTemplates).toEqual({ chats: 'so', texts: 'and so' })
})

it.each([told('qwen3'), undefined])(
  'have no reasoning parser where some have none, and others %j',
  (reasoningParser) => {
    const engines = [engine({ reasoningParser: told(null) }), engine(reasoningParser ? { reasoningParser } : {})]
    for (const all of [engines, engines.toReversed()]) expect(rulesOf(all, 'sglang').reasoningParser).toBeUndefined()
    expect(rulesOf(engines.slice(0, 1), 'sglang').reasoningParser).toBeNull()
  },
)

it('know no chats where engines were told otherwise of media', () => {
  const engines = [engine({ takesMedia: told(true) }), engine({})]
  for (const all of [engines, engines.toReversed()])
    expect(rulesOf(all, 'sglang').otherTemplates?.chats).toContain('media')
  expect(rulesOf([engine({})], 'sglang').otherTemplates).toEqual({})
})
