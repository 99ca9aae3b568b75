import { readFileSync } from 'node:fs'
import { describe, expect, it } from 'vitest'
import { createBlockHasher, createHashScheme } from '../../core/hashing/index.js'
import type { EngineKind } from '../../engines/index.js'
import type { LoadOnlyReason } from '../../tokens/index.js'
import { Tokens } from '../../tokens/index.js'
import { endpointRows } from './endpoints.js'
import type { ModelEngines } from './prompt.js'
import { carriedTokens, promptOn } from './prompt.js'

const completions = endpointRows.find(({ path }) => path === '/v1/completions')!

/** Workers 1, 2 and so on, of these kinds. */
function serving(...kinds: EngineKind[]): ModelEngines {
  const workers = kinds.map((engine, at) => ({ id: BigInt(at + 1), spec: { engine } }))
  return { hasEngine: (kind) => kinds.includes(kind), workers: () => workers }
}

const reasons: Readonly<Record<LoadOnlyReason, true>> = {
  'no-tokenizer': true,
  'no-template': true,
  'media-image': true,
  'media-audio': true,
  'media-video': true,
  'media-other': true,
  embeddings: true,
  'stored-response': true,
  'engine-settings': true,
  'own-renderer': true,
  'request-template': true,
  malformed: true,
  'template-failed': true,
  'too-long': true,
  busy: true,
  deadline: true,
  'source-failed': true,
  'other-route': true,
}

it('the page of the headers says what every reason means, and knows no other', () => {
  const page = readFileSync('docs/reference/headers.md', 'utf8')
  const table = page.slice(page.indexOf('| `x-warmroute-load-only` | Means |')).split('\n\n')[0]!
  const rows = table.split('\n').slice(2)
  const told = rows.flatMap((row) => [...row.split('|')[1]!.matchAll(/`([^`]+)`/g)].map(([, name]) => name!))
  expect(told.toSorted()).toEqual(Object.keys(reasons).toSorted())
})

const cut = { truncate_prompt_tokens: 2 }

describe('ids that a request carries, as the engine keeps them', () => {
  it.each([
    [{ truncate_prompt_tokens: 2 }, [3, 4]],
    [{ truncate_prompt_tokens: 2, truncation_side: 'right' }, [1, 2]],
    [{ truncate_prompt_tokens: 9 }, [1, 2, 3, 4]],
    [{ truncate_prompt_tokens: -1 }, [1, 2, 3, 4]], // the model's limit
    [{ truncate_prompt_tokens: '2' }, [3, 4]], // these are taken for numbers (vLLM 0.32.0)
    [{ truncate_prompt_tokens: ' +2.0 ' }, [3, 4]],
    [{ truncate_prompt_tokens: true }, [4]],
    [{ truncate_prompt_tokens: '0x2' }, [1, 2, 3, 4]], // refused by the engine
  ])('with %j', (more, kept) => {
    expect([...carriedTokens(completions, serving('vllm'), { prompt: [1, 2, 3, 4], ...more })!.tokens]).toEqual(kept)
    expect([
      ...carriedTokens(completions, serving('vllm'), { prompt: Uint32Array.of(1, 2, 3, 4), ...more })!.tokens,
    ]).toEqual(kept)
    const batch = carriedTokens(completions, serving('vllm'), { prompt: [[1, 2, 3, 4], [5]], ...more })!
    expect([[...batch.tokens], batch.totalTokens]).toEqual([kept, kept.length + 1])
  })

  it('are all kept by an SGLang, which has no such field', () => {
    const kept = carriedTokens(completions, serving('sglang', 'sglang'), { prompt: [[1, 2, 3, 4], [5]], ...cut })!
    expect([[...kept.tokens], kept.totalTokens, kept.encodings]).toEqual([[1, 2, 3, 4], 5, undefined])
  })

  it('are those of each kind of engine where several serve the model', () => {
    const prompt = carriedTokens(completions, serving('vllm', 'sglang', 'unknown'), { prompt: [1, 2, 3, 4], ...cut })!
    const kept = [1n, 2n, 3n].map((workerId) => [...promptOn(prompt, workerId)!.tokens])
    expect(kept).toEqual([
      [3, 4],
      [1, 2, 3, 4],
      [3, 4],
    ])
    // A router takes other encodings by their hashes alone.
    const other = prompt.encodings![0]!.prompt!
    const [scheme, hasher] = [createHashScheme({ blockSize: 2 }), createBlockHasher()]
    const hashes = other.hash!(scheme, hasher).localColumn()
    const whole = new Tokens({ ids: Uint32Array.of(1, 2, 3, 4), source: 'request', exactness: 'proven' })
    expect(hashes).toEqual(whole.blockHashes(scheme, hasher).localColumn())
    expect(hashes.length).toBeGreaterThan(0)
  })

  it('have one encoding where nothing is cut', () => {
    const prompt = carriedTokens(completions, serving('vllm', 'sglang'), { prompt: [1, 2, 3, 4] })!
    expect([[...prompt.tokens], prompt.encodings]).toEqual([[1, 2, 3, 4], undefined])
  })
})
