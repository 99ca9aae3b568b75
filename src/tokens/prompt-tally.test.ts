import { expect, it } from 'vitest'
import { PromptTally } from './prompt-tally.js'

it('counts prompts by how their tokens are known, and by why they are not', () => {
  const tally = new PromptTally()
  for (const exactness of ['proven', 'expected', 'expected'] as const)
    tally.tokenized({ source: 'tokenizer', exactness })
  for (const reason of ['busy', 'deadline', 'busy'] as const) tally.loadOnly(reason)
  expect(tally.counts).toMatchObject({
    tokenized: { 'tokenizer/proven': 1, 'tokenizer/expected': 2 },
    loadOnly: { busy: 2, deadline: 1 },
  })
})
