import { describe, expect, it } from 'vitest'
import { endpointRows } from './endpoints.js'
import { carriedTokens } from './prompt.js'

const completions = endpointRows.find(({ path }) => path === '/v1/completions')!

describe('ids that a request carries, as the engine keeps them', () => {
  it.each([
    [{ truncate_prompt_tokens: 2 }, [3, 4]],
    [{ truncate_prompt_tokens: 2, truncation_side: 'right' }, [1, 2]],
    [{ truncate_prompt_tokens: 9 }, [1, 2, 3, 4]],
    [{ truncate_prompt_tokens: -1 }, [1, 2, 3, 4]], // the model's limit
    [{ truncate_prompt_tokens: '2' }, [1, 2, 3, 4]], // refused by the engine
  ])('with %j', (more, kept) => {
    expect([...carriedTokens(completions, { prompt: [1, 2, 3, 4], ...more })!.tokens]).toEqual(kept)
    expect([...carriedTokens(completions, { prompt: Uint32Array.of(1, 2, 3, 4), ...more })!.tokens]).toEqual(kept)
    const batch = carriedTokens(completions, { prompt: [[1, 2, 3, 4], [5]], ...more })!
    expect([[...batch.tokens], batch.totalTokens]).toEqual([kept, kept.length + 1])
  })
})
