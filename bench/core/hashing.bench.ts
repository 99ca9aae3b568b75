// Question: what does naming a prompt's blocks cost, cold and when the conversation's previous prompt is known?
import { BlockHashes, createBlockHasher, createHashScheme } from '../../src/core/hashing/index.js'
import type { BlockHasher } from '../../src/core/hashing/index.js'
import type { Bench, BenchContext } from '../harness.js'
import { defineBench } from '../harness.js'

const scheme = createHashScheme({ blockSize: 16 })
const wasm = createBlockHasher({ backend: 'wasm' })
const ts = createBlockHasher({ backend: 'ts' })

export const benches: readonly Bench[] = [
  defineBench('hash.8k', 'what do local and sequence hashes of 8,192 tokens cost, copies included?', (context) =>
    measureWhole(context, '8k', 8_192, context.size(2, 128), context.size(1, 20)),
  ),
  defineBench('hash.128k', 'the same for 131,072 tokens, more than the nearest caches hold', (context) =>
    measureWhole(context, '128k', 131_072, context.size(1, 16), context.size(1, 10)),
  ),
  defineBench('hash.known_prefix', 'and when a prompt of 8,192 tokens grows by a turn of 256?', (context) =>
    measureExtension(context, 'known_prefix', 8_192, context.size(2, 128), context.size(1, 100)),
  ),
  defineBench('hash.known_prefix_128k', 'and when a prompt of 131,072 tokens grows by as much?', (context) =>
    measureExtension(context, 'known_prefix_128k', 131_072, context.size(1, 16), context.size(1, 50)),
  ),
  defineBench(
    'hash.kept_turn',
    'what does a turn cost where every turn is kept, as a token cache keeps them?',
    (context) => measureKept(context, context.size(2, 128), context.size(3, 24)),
  ),
]

/** Prompts of 8,192 tokens grow by 256 a turn; a token cache knows what is shared, and each turn has hashes of its own. */
async function measureKept(context: BenchContext, talks: number, turns: number): Promise<void> {
  const [first, turn] = [8_192, 256]
  const whole = Array.from({ length: talks }, (_, talk) => promptOf(first + turns * turn, talk))
  const prompts = whole.map((it) => Array.from({ length: turns + 1 }, (_, at) => it.subarray(0, first + at * turn)))
  const begun = (hasher: BlockHasher) =>
    prompts.map(([prompt]) => {
      const hashes = new BlockHashes()
      hasher.hash(prompt!, scheme, hashes)
      return hashes
    })
  const keepAll = (hasher: BlockHasher) => () => {
    let kept = begun(hasher)
    for (let at = 1; at <= turns; at++) {
      kept = kept.map((known, talk) => {
        const into = new BlockHashes()
        hasher.extend(known, prompts[talk]![at]!, scheme, { into, sharedTokens: known.tokens.length })
        return into
      })
    }
    return kept.reduce((sum, it) => (sum + lastWord(it)) >>> 0, 0)
  }
  const begin = (hasher: BlockHasher) => () => begun(hasher).reduce((sum, it) => (sum + lastWord(it)) >>> 0, 0)
  const { wasm: all, begun: start } = await context.compare(
    { wasm: keepAll(wasm), begun: begin(wasm) },
    { sameChecksum: false },
  )
  const { spread, checksum } = all
  const value = Math.max(0, all.cpuNs - start.cpuNs) / (talks * turns) / 1000
  context.report({ id: 'hash.kept_turn.us', value, unit: 'CPU us', spread, checksum })
}

async function measureWhole(
  context: BenchContext,
  id: string,
  tokens: number,
  prompts: number,
  rounds: number,
): Promise<void> {
  const list = Array.from({ length: prompts }, (_, prompt) => promptOf(tokens, prompt))
  const into = new BlockHashes()
  const hashAll = (hasher: BlockHasher) => () => {
    let checksum = 0
    for (let round = 0; round < rounds; round++) {
      for (const prompt of list) {
        hasher.hash(prompt, scheme, into)
        checksum = (checksum + lastWord(into)) >>> 0
      }
    }
    return checksum
  }
  const timings = await context.compare({ wasm: hashAll(wasm), ts: hashAll(ts) })
  const blocks = (rounds * prompts * tokens) / 16
  const { spread, checksum } = timings.wasm
  context.report({ id: `hash.${id}.ns_per_block`, value: timings.wasm.cpuNs / blocks, unit: 'ns', spread, checksum })
  reportRatio(context, `hash.${id}.wasm_over_ts`, timings)
}

/**
 * `told`: a token cache already knows which tokens are the same. Every conversation has its own tokens and hashes, as it
 * would in a router: none of it is in the nearest cache.
 */
async function measureExtension(
  context: BenchContext,
  id: string,
  tokens: number,
  prompts: number,
  rounds: number,
): Promise<void> {
  const turn = 256
  const conversations = Array.from({ length: prompts }, (_, prompt) => {
    const next = promptOf(tokens + turn, prompt)
    const known = new BlockHashes()
    wasm.hash(next, scheme, known) // room for the next turn, as a conversation that grows has half of the time
    const previous = next.slice(0, tokens)
    wasm.hash(previous, scheme, known)
    return { known, previous, next }
  })
  const extendAll = (hasher: BlockHasher, sharedTokens?: number) => () => {
    let checksum = 0
    for (let round = 0; round < rounds; round++) {
      for (const { known, previous, next } of conversations) {
        hasher.extend(known, next, scheme, { sharedTokens })
        checksum = (checksum + lastWord(known)) >>> 0
        known.tokens = previous // one turn back, so that the next round does the same again
        known.count = tokens / 16
      }
    }
    return checksum
  }
  const timings = await context.compare({ wasm: extendAll(wasm), ts: extendAll(ts), told: extendAll(wasm, tokens) })
  const blocks = (rounds * prompts * (tokens + turn)) / 16
  const { told } = timings
  context.report({ ...told, id: `hash.${id}.told.ns_per_block`, value: told.cpuNs / blocks, unit: 'ns' })
  const { spread, checksum } = timings.wasm
  context.report({ id: `hash.${id}.ns_per_block`, value: timings.wasm.cpuNs / blocks, unit: 'ns', spread, checksum })
  reportRatio(context, `hash.${id}.wasm_over_ts`, timings)
}

/** How many times faster the kernel is than the twin in the same run. */
function reportRatio(
  context: BenchContext,
  id: string,
  { wasm, ts }: Awaited<ReturnType<typeof context.compare<'wasm' | 'ts'>>>,
): void {
  const value = wasm.cpuNs === 0 ? 0 : ts.cpuNs / wasm.cpuNs // the small form is shorter than the clock's step
  context.report({ id, value, unit: 'x', spread: Math.max(wasm.spread, ts.spread), checksum: wasm.checksum })
}

function lastWord(hashes: BlockHashes): number {
  return hashes.sequence[2 * hashes.count - 1]!
}

/** Token ids of a large vocabulary, the same in every run. */
function promptOf(length: number, prompt: number): Uint32Array {
  let state = prompt + 1
  return Uint32Array.from({ length }, () => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) | 0
    return (state >>> 8) % 151_936
  })
}
