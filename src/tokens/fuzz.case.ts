/** Long random runs: ids against the Rust binding, cached against uncached, memory under very many texts. */
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { prose, randomFrom, tokenizerFolder } from '../../bench/tokens/texts.js'
import { createBlockHasher, createHashScheme } from '../core/hashing/index.js'
import { mixtures } from './corpora.case.js'
import { apply, chatCount, firstChats, words } from './model/edits.case.js'
import type { Step } from './model/edits.case.js'
import { loadModel } from './model/loaded-model.js'
import type { ModelCase } from './model/loaded-models.case.js'
import { everyModel } from './model/loaded-models.case.js'
import { ModelTokens } from './model/model-tokens.js'
import { CountedPool } from './pool/counted-pool.case.js'
import { TokenPool } from './pool/pool.js'
import { realNames, realTokenizer } from './real-tokenizers.case.js'
import { Tokens } from './tokens.js'

/** Random texts of random code points and of the corpora's characters, in every real tokenizer. Throws at the first difference. */
export async function fuzzParity(seed: number, cases: number): Promise<string> {
  const random = randomFrom(seed)
  let ids = 0
  for (const name of realNames) {
    const tokenizer = realTokenizer(name)
    const encoder = tokenizer.newEncoder()
    for (let index = 0; index < cases; index++) {
      const text = index % 4 === 0 ? randomText(random) : mixtures(1, random(2 ** 31), 1 + random(80))[0]!
      const wanted = await tokenizer.oracle(text)
      const got = encoder.encode(text)
      if (wanted.length !== got.length || wanted.some((id, at) => id !== got[at])) {
        throw new Error(`${name}: ${JSON.stringify(text)}`)
      }
      ids += got.length
    }
  }
  return `ok: ${ids} ids equal in ${realNames.length} tokenizers`
}

/** Code points of the scripts that pre-tokenizers tell apart; unassigned ones are left out, since Unicode versions differ there. */
function randomText(random: (limit: number) => number): string {
  const ranges: readonly (readonly [number, number])[] = [
    [0x00, 0x7f],
    [0x80, 0x24f],
    [0x300, 0x36f],
    [0x370, 0x52f],
    [0x5d0, 0x6ff],
    [0x900, 0x97f],
    [0xe00, 0xe3a],
    [0x1100, 0x11ff],
    [0x2000, 0x206f],
    [0x2100, 0x218b],
    [0x3000, 0x30ff],
    [0x4e00, 0x9fff],
    [0xac00, 0xd7a3],
    [0xd800, 0xdfff],
    [0xf900, 0xfa6d],
    [0xfe00, 0xfe6f],
    [0x1_f300, 0x1_f64f],
  ]
  let text = ''
  for (let left = random(60); left >= 0; left--) {
    const [low, high] = ranges[random(ranges.length)]!
    const codePoint = low + random(high - low + 1)
    if (codePoint < 0xd800 || codePoint > 0xdfff) {
      if (/\p{Cn}/u.test(String.fromCodePoint(codePoint))) continue
      text += String.fromCodePoint(codePoint)
    } else text += String.fromCharCode(codePoint)
  }
  return text
}

/**
 * Random edits of conversations; ids and hashes of a model with small caches against an encoder that forgets. In one case of twenty
 * several clients share the model at once, and long texts go to two threads. Throws, too, where nothing was forgotten or a thread had nothing to do.
 */
export async function fuzzCaches(seed: number, cases: number): Promise<string> {
  const random = randomFrom(seed)
  const pool = new CountedPool({ threads: 2 })
  const models = everyModel('fuzz')
  const happened = { continued: 0, onLoop: 0, texts: 0, pieces: 0, segments: 0 }
  try {
    for (let index = 0; index < cases; index++) {
      const model = models[index % models.length]!
      const cacheBytes = [24_000, 200_000, 8 << 20][random(3)]!
      const isShared = random(20) === 0
      const cached = new ModelTokens(model.loaded, pool, { cacheBytes, ...(isShared ? { loopBytesMax: 300 } : {}) })
      const addSpecialTokens = random(2) === 0
      const clients = Array.from({ length: isShared ? 4 : 1 }, () =>
        Array.from({ length: 1 + random(25) }, () => randomStep(random)),
      )
      await Promise.all(clients.map((steps) => converse(steps, cached, model, addSpecialTokens, cacheBytes)))
      const { texts, onLoop, encoder } = cached.counts
      happened.continued += texts.hits
      happened.onLoop += onLoop
      happened.texts += texts.evictions
      happened.pieces += encoder!.pieces.evictions
      happened.segments += encoder!.segments.evictions
    }
  } finally {
    await pool.close()
  }
  const byThread = [...pool.encodedBy.values()]
  if (byThread.length < 2 || Object.values(happened).includes(0))
    throw new Error(`not all of it happened: ${JSON.stringify({ ...happened, byThread })}`)
  const { continued, onLoop, texts, pieces, segments } = happened
  return `ok: ${continued} texts continued from a remembered one; forgotten: ${texts} texts, ${pieces} pieces, ${segments} segments; encoded: ${onLoop} on the loop, ${byThread.join(' and ')} in ${byThread.length} threads; ${models.length} tokenizers`
}

async function converse(
  steps: readonly Step[],
  model: ModelTokens,
  { name, uncached }: ModelCase,
  addSpecialTokens: boolean,
  cacheBytes: number,
): Promise<void> {
  const scheme = createHashScheme({ blockSize: 4 })
  const hasher = createBlockHasher()
  const chats = firstChats()
  for (const step of steps) {
    apply(chats, step)
    const prompt = chats[step.chat]!.join('')
    const body = { prompt, add_special_tokens: addSpecialTokens }
    const tokens = await model.tokenize('completions', body, { deadlineMs: 120_000 }) // a busy machine is no difference
    const ids = uncached(prompt, addSpecialTokens)
    const fresh = new Tokens({ ids, source: 'tokenizer', exactness: 'proven' })
      .blockHashes(scheme, hasher)
      .sequenceColumn()
    const cached = tokens.blockHashes(scheme, hasher).sequenceColumn()
    const isSame = String(ids) === String(tokens.ids) && String(fresh) === String(cached)
    if (!isSame || model.counts.cacheBytes > cacheBytes) throw new Error(`${name}: ${JSON.stringify(prompt)}`)
  }
}

function randomStep(random: (limit: number) => number): Step {
  const chat = random(chatCount)
  const word = (): string => words[random(words.length)]!
  const kind = random(9)
  if (kind < 5) return { kind: 'append', chat, words: Array.from({ length: random(13) }, word) }
  if (kind < 7) return { kind: 'edit', chat, at: random(6), word: word() }
  return kind === 7 ? { kind: 'cut', chat, at: random(6) } : { kind: 'copy', chat, from: random(chatCount) }
}

/**
 * So many distinct texts through caches of 32 MB; answers what the caches and the process hold at the end. Most texts are just long enough
 * to be remembered, so that a million of them take half a minute.
 */
export async function fuzzMemory(seed: number, cases: number): Promise<string> {
  const random = randomFrom(seed)
  const pool = new TokenPool({ threads: 1 })
  const model = new ModelTokens(loadModel(tokenizerFolder('qwen3'), 'm'), pool, { cacheBytes: 32 << 20 })
  const source = prose(20_000, seed)
  const heldMb = (): number => Math.round(process.memoryUsage.rss() / 2 ** 20)
  const atFirst = liveBytes() - model.counts.cacheBytes
  let before = 0
  let cachedMax = 0
  for (let index = 0; index < cases; index++) {
    if (index === Math.floor(cases / 10)) before = heldMb()
    const at = random(18_000)
    const length = random(50) === 0 ? random(2000) : 120
    await model.encode(`${index} ${source.slice(at, at + length)} ${random(2 ** 31)}`, false)
    cachedMax = Math.max(cachedMax, model.counts.cacheBytes)
  }
  await pool.close()
  if (cachedMax > 32 << 20) throw new Error(`the caches held ${cachedMax} bytes`)
  const liveMb = (liveBytes() - atFirst) / 2 ** 20
  if (cases > 100_000 && liveMb > 34) throw new Error(`the caches held ${liveMb.toFixed(1)} MB, more than was counted`)
  const grownMb = heldMb() - before
  if (grownMb > 96) throw new Error(`the process grew by ${grownMb} MB after the first tenth`)
  const { evictions } = model.counts.texts
  return `ok: caches at most ${(cachedMax / 2 ** 20).toFixed(1)} MB, ${evictions} texts forgotten, ${liveMb.toFixed(1)} MB held, resident ${before} MB after a tenth and ${heldMb()} MB at the end`
}

/** What the process can still reach: all that is counted, and what nobody counts. */
function liveBytes(): number {
  setFlagsFromString('--expose-gc')
  const collect = runInNewContext('gc') as () => void
  for (let round = 0; round < 4; round++) collect()
  const { heapUsed, arrayBuffers } = process.memoryUsage()
  return heapUsed + arrayBuffers
}
