// The threads themselves: whose answer is whose, what a task leaves behind that is aborted or late, and how many may wait.
import { getEventListeners, once } from 'node:events'
import { setImmediate } from 'node:timers/promises'
import type { Worker } from 'node:worker_threads'
import { afterEach, expect, it } from 'vitest'
import { prose, tokenizerFolder } from '../../../bench/tokens/texts.js'
import { plainRules } from '../chat/build-prompt.js'
import type { LoadedModel } from '../model/loaded-model.js'
import { loadModel } from '../model/loaded-model.js'
import { realTokenizer, tinyllamaFolder } from '../real-tokenizers.case.js'
import { CountedPool } from './counted-pool.case.js'
import type { PoolOptions, TaskOptions } from './pool.js'

const tiny = loadModel(tinyllamaFolder, 'pool tiny', 'switched')
const gpt2 = loadModel(tokenizerFolder('gpt2'), 'pool gpt2')
const patient = { deadlineMs: 60_000 }

const opened: CountedPool[] = []
const stops: (() => void)[] = []
afterEach(async () => {
  for (const stop of stops.splice(0)) stop()
  await Promise.all(opened.splice(0).map((pool) => pool.close()))
})
function open(options: PoolOptions): CountedPool {
  const pool = new CountedPool(options)
  opened.push(pool)
  return pool
}

/** Those that begin from now on, until the test ends. */
function startedThreads(): Worker[] {
  const threads: Worker[] = []
  const onWorker = (worker: Worker): void => void threads.push(worker)
  process.on('worker', onWorker)
  stops.push(() => process.off('worker', onWorker))
  return threads
}

interface Text extends Partial<TaskOptions> {
  readonly model?: LoadedModel
  readonly isContinued?: boolean
}

async function encode(
  pool: CountedPool,
  text: string,
  { model = tiny, isContinued = false, ...options }: Text = {},
): Promise<number[]> {
  const { key, plan, vocabulary, library } = model
  const task = { model: { key, plan, vocabulary, library }, text: new TextEncoder().encode(text), isContinued }
  return [...(await pool.run('encode', task, { ...patient, ...options })).ids]
}

/** Keeps a thread busy until it is ended: a text of any length may be done before a busy machine has started another. */
async function hold(pool: CountedPool, options: Partial<TaskOptions> = {}): Promise<unknown> {
  const [begin, end] = [Array(4).fill('{% for a in range(99999) %}').join(''), Array(4).fill('{% endfor %}').join('')]
  const raw = new TextEncoder().encode(JSON.stringify({ messages: [{ role: 'user', content: 'x' }] }))
  const templates = [{ name: 'default', source: begin + end }]
  const limits = { outputMax: 1000, deadlineMs: Infinity }
  const task = { key: 'endless', templates, specials: {}, route: 'chat', raw, rules: plainRules, ...limits } as const
  return pool.run('render', task, { ...patient, ...options })
}

function holdLoop(ms: number): void {
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, ms)
}

/** One is there long before the other. */
async function bothThreads(pool: CountedPool): Promise<void> {
  for (pool.encodedBy.clear(); pool.encodedBy.size < 2; )
    await Promise.all([1, 2, 3, 4].map((at) => encode(pool, prose(20_000, at))))
}

/** Until the thread is the one that gets the next task where both are free. */
async function makeNext(pool: CountedPool, { threadId }: Worker): Promise<void> {
  for (let isNext = false; !isNext; ) {
    await Promise.all([encode(pool, 'hello'), encode(pool, prose(200_000, 1))]) // they change places
    const before = pool.encodedBy.get(threadId)!
    await encode(pool, 'hello')
    isNext = pool.encodedBy.get(threadId) !== before
  }
}

it('each of many texts at once gets its own ids, in its own model, from two threads', async () => {
  const pool = open({ threads: 2, queueMax: 100 })
  const encoders = { tiny: realTokenizer('tinyllama').newEncoder(), gpt2: realTokenizer('gpt2').newEncoder() }
  for (let round = 0; round === 0 || pool.encodedBy.size < 2; round++) {
    const texts = Array.from({ length: 40 }, (_, index) => prose(40 + ((index * 7919) % 5000), 40 * round + index))
    const answers = await Promise.all(texts.map((text, at) => encode(pool, text, { model: at % 2 ? tiny : gpt2 })))
    const wanted = texts.map((text, at) => [...encoders[at % 2 ? 'tiny' : 'gpt2'].encode(text)])
    expect(answers).toEqual(wanted)
  }
  encoders.tiny.loadBytes(new TextEncoder().encode('then some'), true)
  encoders.tiny.encodeFrom(0)
  const rest = [...encoders.tiny.takeIds(false)]
  expect(await encode(pool, 'then some', { isContinued: true })).toEqual(rest)
  expect(await encode(pool, 'then some')).not.toEqual(rest)
}, 120_000)

it('refuses what may not wait, and an aborted task takes nothing with it but its thread', async () => {
  const pool = open({ threads: 1, queueMax: 2 })
  const [running, waiting] = [new AbortController(), new AbortController()]
  const wanted = await encode(pool, 'hello')
  const held = hold(pool, { signal: running.signal })
  const left = encode(pool, 'left', { signal: waiting.signal })
  const next = encode(pool, 'hello', { signal: waiting.signal })
  await expect(encode(pool, 'more')).rejects.toMatchObject({ code: 'WR_TOKENS_BUSY', details: { waiting: 3 } })
  running.abort(new Error('the client left'))
  await expect(held).rejects.toThrow('the client left')
  expect([await left, await next]).toEqual([await encode(pool, 'left'), wanted])
  expect(pool.counts).toEqual({ done: 4, failed: 1, refused: 1, ended: 1 })
  expect(pool.running).toBe(0)
  expect([running, waiting].flatMap(({ signal }) => getEventListeners(signal, 'abort'))).toEqual([])
}, 120_000)

it('a task that is aborted while it waits leaves the one that runs alone', async () => {
  const pool = open({ threads: 1 })
  const [running, waiting] = [new AbortController(), new AbortController()]
  await encode(pool, 'the thread is there')
  let isHeld = true
  const held = hold(pool, { signal: running.signal }).finally(() => (isHeld = false))
  const left = encode(pool, 'left', { signal: waiting.signal })
  waiting.abort(new Error('left'))
  await expect(left).rejects.toThrow('left')
  await expect(encode(pool, 'late', { deadlineMs: 1 })).rejects.toMatchObject({ code: 'WR_TOKENS_DEADLINE' })
  expect(isHeld).toBe(true)
  expect(pool.counts.ended).toBe(0) // neither had a thread
  running.abort(new Error('held'))
  await expect(held).rejects.toThrow('held')
  expect(pool.counts).toEqual({ done: 1, failed: 3, refused: 0, ended: 1 })
}, 60_000)

it('a thread that ends with its task is replaced for those that wait, also while another is busy', async () => {
  const pool = open({ threads: 2 })
  const [one, other] = [new AbortController(), new AbortController()]
  await bothThreads(pool)
  const held = [one, other].map(({ signal }) => expect(hold(pool, { signal })).rejects.toThrow('gone'))
  const waiting = [1, 2, 3].map((at) => encode(pool, `waits ${at}`, { deadlineMs: 20_000 }))
  one.abort(new Error('gone'))
  expect((await Promise.all(waiting)).every((ids) => ids.length > 0)).toBe(true)
  expect(pool.running).toBe(1)
  other.abort(new Error('gone'))
  await Promise.all(held)
}, 60_000)

it('a thread that is lost takes its task with it and nothing else, and another serves those that wait', async () => {
  const threads = startedThreads()
  const pool = open({ threads: 1 })
  const wanted = await encode(pool, 'hello')
  const held = hold(pool)
  const waiting = encode(pool, 'hello')
  threads.at(-1)!.emit('error', new Error('out of memory'))
  await expect(held).rejects.toMatchObject({ code: 'WR_TOKENS_SOURCE_FAILED', details: { reason: 'out of memory' } })
  expect(await waiting).toEqual(wanted)
  threads.at(-1)!.emit('error', new Error('lost with nothing to do'))
  expect(await encode(pool, 'hello')).toEqual(wanted)
  expect(threads).toHaveLength(3)
}, 60_000)

it('a thread that answers while it ends takes no other task with it', async () => {
  const pool = open({ threads: 2 })
  const stop = new AbortController()
  const wanted = await encode(pool, 'hello')
  const aborted = expect(encode(pool, 'hello', { signal: stop.signal })).rejects.toThrow('gone')
  const waiting = encode(pool, 'hello') // for the second thread, which is not there yet
  holdLoop(300) // the first has answered meanwhile, and nobody has heard it
  stop.abort(new Error('gone'))
  await aborted
  expect(await waiting).toEqual(wanted)
  expect(pool.counts).toEqual({ done: 2, failed: 1, refused: 0, ended: 1 })
}, 60_000)

it('a task goes to a thread that is there, and not to one that has yet to start in place of another', async () => {
  const threads = startedThreads()
  const pool = open({ threads: 2 })
  const stop = new AbortController()
  await bothThreads(pool)
  const [first] = threads // the one that is replaced at once
  await makeNext(pool, first!)
  const held = expect(hold(pool, { signal: stop.signal })).rejects.toThrow('gone')
  const exit = once(first!, 'exit')
  stop.abort(new Error('gone'))
  await Promise.all([held, exit])
  await setImmediate()
  await encode(pool, 'hello')
  expect(pool.encodedBy.size).toBe(2)
}, 60_000)

it('a task goes to a thread that is there, and not to one that ended while it had nothing to do', async () => {
  const threads = startedThreads()
  const pool = open({ threads: 2 })
  await bothThreads(pool)
  await makeNext(pool, threads[1]!) // the one that is not replaced before it is needed
  await threads[1]!.terminate()
  await encode(pool, 'hello')
  expect(threads).toHaveLength(2)
}, 60_000)

it('a thread that ends before its first task is replaced, and so is the one in its place', async () => {
  const threads = startedThreads()
  const pool = open({ threads: 1 })
  await setImmediate()
  await threads[0]!.terminate()
  const wanted = await encode(pool, 'hello')
  threads.at(-1)!.emit('error', new Error('lost with nothing to do'))
  await setImmediate()
  await threads.at(-1)!.terminate()
  expect(await encode(pool, 'hello')).toEqual(wanted)
}, 20_000)

it('a thread is watched once, however many tasks it has', async () => {
  const threads = startedThreads()
  const pool = open({ threads: 1 })
  await encode(pool, 'the thread is there')
  const listeners = (): number => threads[0]!.listenerCount('exit')
  const before = listeners()
  for (let round = 0; round < 3; round++) await encode(pool, 'hello')
  expect([before > 0, listeners()]).toEqual([true, before])
}, 60_000)

it('64 tasks may wait where nothing else is said', async () => {
  const pool = open({ threads: 1 })
  const gone = Promise.allSettled(Array.from({ length: 65 }, () => hold(pool)))
  await expect(hold(pool)).rejects.toMatchObject({ code: 'WR_TOKENS_BUSY', details: { waiting: 65 } })
  await pool.close()
  await gone
}, 60_000)

it('a thread that ends without a word fails its task at once, and is replaced also where it had none', async () => {
  const threads = startedThreads()
  const pool = open({ threads: 1 })
  const wanted = await encode(pool, 'hello')
  const held = hold(pool)
  const waiting = encode(pool, 'hello')
  await threads.at(-1)!.terminate()
  await expect(held).rejects.toMatchObject({
    code: 'WR_TOKENS_SOURCE_FAILED',
    details: { reason: 'the thread exited' },
  })
  expect(await waiting).toEqual(wanted)
  await threads.at(-1)!.terminate()
  expect(await encode(pool, 'hello')).toEqual(wanted)
}, 20_000)

it.each(['without a word', 'with an error'])(
  'a thread that ends %s while it starts fails its task at once',
  async (how) => {
    const threads = startedThreads()
    const pool = open({ threads: 2 })
    const stop = new AbortController()
    const wanted = await encode(pool, 'hello')
    const held = expect(hold(pool, { signal: stop.signal })).rejects.toThrow('gone')
    const lost = encode(pool, 'hello')
    await setImmediate()
    expect(threads).toHaveLength(2)
    if (how === 'without a word') await threads[1]!.terminate()
    else threads[1]!.emit('error', new Error('no memory'))
    const reason = how === 'without a word' ? 'the thread exited' : 'no memory'
    await expect(lost).rejects.toMatchObject({ code: 'WR_TOKENS_SOURCE_FAILED', details: { reason } })
    expect(await encode(pool, 'hello')).toEqual(wanted)
    expect(threads).toHaveLength(3)
    stop.abort(new Error('gone'))
    await held
    expect(pool.counts).toEqual({ done: 2, failed: 2, refused: 0, ended: 1 })
  },
  20_000,
)

it('a thread that ends while it starts in place of another fails the task that waits for it, and a third serves', async () => {
  const threads = startedThreads()
  const pool = open({ threads: 1 })
  const wanted = await encode(pool, 'hello')
  const held = hold(pool)
  const lost = expect(hold(pool)).rejects.toMatchObject({ details: { reason: 'the thread exited' } })
  const exit = new Promise((resolve) => threads[0]!.once('exit', resolve))
  threads[0]!.emit('error', new Error('out of memory'))
  await expect(held).rejects.toMatchObject({ details: { reason: 'out of memory' } })
  await exit
  await setImmediate() // now the other has the task
  expect(threads).toHaveLength(2)
  await threads[1]!.terminate()
  await lost
  expect(await encode(pool, 'hello')).toEqual(wanted)
  expect(pool.running).toBe(0)
}, 60_000)

it('a thread that ends in place of another which has not ended yet is replaced for the task that waits', async () => {
  const threads = startedThreads()
  const pool = open({ threads: 1 })
  const wanted = await encode(pool, 'hello')
  const [first] = threads
  const end = first!.terminate.bind(first)
  let letEnd = (): void => {}
  const isSlow = new Promise<void>((resolve) => (letEnd = resolve))
  first!.terminate = async () => {
    const code = await end()
    await isSlow
    return code
  }
  const held = hold(pool)
  const waiting = encode(pool, 'hello')
  first!.emit('error', new Error('out of memory'))
  await expect(held).rejects.toMatchObject({ details: { reason: 'out of memory' } })
  await setImmediate()
  expect(threads).toHaveLength(2)
  await threads[1]!.terminate()
  letEnd()
  expect(await waiting).toEqual(wanted)
  expect(threads).toHaveLength(3)
}, 60_000)

it('a task of a request that is gone already is not begun', async () => {
  const pool = open({ threads: 1 })
  await expect(encode(pool, 'hello', { signal: AbortSignal.abort(new Error('gone')) })).rejects.toThrow('gone')
  expect(pool.counts).toEqual({ done: 0, failed: 0, refused: 0, ended: 0 })
})

it('a task ends at its deadline, and with the error that it threw', async () => {
  const pool = open({ threads: 1 })
  const late = encode(pool, 'q'.repeat(3_000_000), { deadlineMs: 1 })
  await expect(late).rejects.toMatchObject({ code: 'WR_TOKENS_DEADLINE', details: { deadlineMs: 1, task: 'encode' } })
  const bad = pool.run('load', { folder: '/nowhere', key: 'bad', reading: 'built' }, patient)
  await expect(bad).rejects.toMatchObject({ code: 'WR_TOKENS_BAD_TOKENIZER', details: { folder: '/nowhere' } })
  expect(pool.counts).toEqual({ done: 0, failed: 2, refused: 0, ended: 1 })
}, 60_000)

it('a task whose thread ends under it fails with an error that its request can go on from', async () => {
  const pool = open({ threads: 1 })
  const held = hold(pool)
  const lost = expect(held).rejects.toMatchObject({ code: 'WR_TOKENS_SOURCE_FAILED' })
  await pool.close()
  await lost
})

it('a task that is done leaves no timer behind, which would keep the process for as long as it might have run', async () => {
  const pool = open({ threads: 1 })
  const timers = (): number => process.getActiveResourcesInfo().filter((kind) => kind === 'Timeout').length
  await encode(pool, 'the thread is there')
  const before = timers()
  for (let round = 0; round < 3; round++) await encode(pool, 'hello')
  expect(timers()).toBeLessThanOrEqual(before)
}, 60_000)

it('starts no thread once it is closed: neither for a task that comes late nor for one that is aborted under it', async () => {
  const running = new Set<Worker>()
  const onWorker = (worker: Worker): void => {
    running.add(worker)
    worker.once('exit', () => running.delete(worker))
  }
  process.on('worker', onWorker)
  stops.push(() => process.off('worker', onWorker))
  const pool = open({ threads: 1 })
  const stop = new AbortController()
  await encode(pool, 'the thread is there')
  expect(running.size).toBe(1)
  const held = expect(hold(pool, { signal: stop.signal })).rejects.toThrow()
  const waiting = expect(encode(pool, 'waits')).rejects.toMatchObject({ code: 'WR_TOKENS_SOURCE_FAILED' })
  const closed = pool.close()
  stop.abort()
  await Promise.all([held, waiting, closed])
  expect(running.size).toBe(0)
  await expect(encode(pool, 'late')).rejects.toMatchObject({ code: 'WR_TOKENS_SOURCE_FAILED' })
  expect(running.size).toBe(0)
}, 60_000)
