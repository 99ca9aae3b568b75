// The commands as a person starts them: child processes, their words and their exit status.
import type { ChildProcess, StdioOptions } from 'node:child_process'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { closeSync, mkdtempSync, openSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import type { AddressInfo, Socket } from 'node:net'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { afterEach, expect, it } from 'vitest'
import { command } from '../../test/command.js'
import type { SimEngine } from '../sim/index.js'
import { startSimEngine } from '../sim/index.js'

const json = { 'content-type': 'application/json' }
const children: ChildProcess[] = []
const engines: SimEngine[] = []
afterEach(async () => {
  for (const child of children.splice(0)) child.kill('SIGKILL')
  for (const engine of engines.splice(0)) await engine.close()
})

function start(...args: string[]): ChildProcess {
  return startWith(['ignore', 'pipe', 'pipe'], ...args)
}

function startWith(stdio: StdioOptions, ...args: string[]): ChildProcess {
  const child = spawn(process.execPath, [...command, ...args], { stdio })
  children.push(child)
  return child
}

/** Where `serve` is, once it has said so. */
async function listening(child: ChildProcess): Promise<string> {
  const [line] = (await once(createInterface({ input: child.stdout! }), 'line')) as [string]
  return /listens on (http:\S+)/.exec(line)![1]!
}

/** Runs to the end. */
async function run(...args: string[]): Promise<{ status: number | null; out: string; errors: string }> {
  const child = start(...args)
  const [out, errors] = [collect(child.stdout!), collect(child.stderr!)]
  const [status] = (await once(child, 'exit')) as [number | null]
  return { status, out: await out, errors: await errors }
}

async function collect(stream: NodeJS.ReadableStream): Promise<string> {
  let text = ''
  for await (const chunk of stream) text += String(chunk)
  return text
}

async function engine(speedup = 100): Promise<SimEngine> {
  const started = await startSimEngine({ engine: 'vllm', speedup })
  engines.push(started)
  return started
}

it('serve prints its table, answers, and ends cleanly when told to', async () => {
  const { url } = await engine()
  const child = start('serve', url, '--port', '0', '--log', 'off')
  const lines: string[] = []
  for await (const line of createInterface({ input: child.stdout! })) {
    lines.push(line)
    if (line.endsWith(' exact')) break
  }
  const address = /listens on (http:\S+)/.exec(lines.join('\n'))![1]!
  const models = (await (await fetch(`${address}/v1/models`)).json()) as { data: { id: string }[] }
  expect(models.data.map((it) => it.id)).toEqual(['sim'])
  child.kill('SIGTERM')
  expect(await once(child, 'exit')).toEqual([0, null])
})

it('serve lets a stream end when its terminal is closed, and keeps what it knew', async () => {
  const { url } = await engine(5)
  const folder = mkdtempSync(join(tmpdir(), 'kept-'))
  const child = start('serve', url, '--port', '0', '--snapshot-folder', folder)
  const address = await listening(child)
  const body = JSON.stringify({ model: 'sim', prompt: 'a '.repeat(200), max_tokens: 100, stream: true })
  const stream = await fetch(`${address}/v1/completions`, { method: 'POST', body, headers: json })
  child.kill('SIGHUP')
  expect(await stream.text()).toMatch(/\[DONE\]\s*$/)
  expect(await once(child, 'exit')).toEqual([0, null])
  expect(readdirSync(folder)).toEqual(['caches-0.snapshot'])
  rmSync(folder, { recursive: true })
})

it.each([
  { signals: ['SIGINT', 'SIGTERM'], end: [null, 'SIGTERM'] },
  { signals: ['SIGHUP', 'SIGINT'], end: [null, 'SIGINT'] },
  { signals: ['SIGTERM', 'SIGTERM'], end: [null, 'SIGTERM'] },
  { signals: ['SIGHUP', 'SIGHUP'], end: [0, null] },
  { signals: ['SIGTERM', 'SIGHUP'], end: [0, null] },
] as const)('serve is told twice to end: $signals', async ({ signals, end }) => {
  const { url } = await engine(0.1) // some 2 s for the answer
  const child = start('serve', url, '--port', '0', '--snapshot-folder', 'none', '--log', 'off')
  const lines = createInterface({ input: child.stdout! })
  const [first] = (await once(lines, 'line')) as [string]
  const body = JSON.stringify({ model: 'sim', prompt: 'a', max_tokens: 8, stream: true })
  const address = `${/listens on (http:\S+)/.exec(first)![1]!}/v1/completions`
  const { body: stream } = await fetch(address, { method: 'POST', headers: json, body })
  const ended = once(child, 'exit')
  const told = new Promise<void>((resolve) => {
    lines.on('line', (line) => line.startsWith(`${signals[0]}:`) && resolve())
  })
  child.kill(signals[0])
  await told
  child.kill(signals[1])
  const text = await new Response(stream).text().catch(() => 'cut off')
  expect(await ended).toEqual(end)
  expect(text.includes('[DONE]')).toBe(end[0] === 0)
})

it('serve ends cleanly also while an engine has not answered its first look', async () => {
  const { url } = await engine()
  const asked: Socket[] = []
  const silent = createServer((socket) => void asked.push(socket)).listen(0, '127.0.0.1') // accepts, and says nothing
  await once(silent, 'listening')
  const child = start('serve', url, `127.0.0.1:${(silent.address() as AddressInfo).port}`, '--port', '0')
  const errors = createInterface({ input: child.stderr! })
  await once(errors, 'line') // the other engine has joined: requests are served
  child.kill('SIGTERM')
  const [out, [status]] = await Promise.all([collect(child.stdout!), once(child, 'exit')])
  for (const socket of asked) socket.destroy()
  await new Promise((resolve) => silent.close(resolve))
  expect({ status, isTold: out.includes('SIGTERM') }).toEqual({ status: 0, isTold: true })
  expect(out).toContain('waiting')
})

it('a reader that leaves ends no gateway, whichever of its outputs it was', async () => {
  const { url } = await engine()
  const child = start('serve', url, '--port', '0')
  const address = await listening(child)
  child.stdout!.destroy()
  child.stderr!.destroy()
  await fetch(`${address}/workers/1/drain`, { method: 'POST' }) // is logged
  await fetch(`${address}/live`)
  child.kill('SIGTERM') // is told
  expect(await once(child, 'exit')).toEqual([0, null])
})

it('a reader that leaves early sees no stack', async () => {
  const child = start('serve', '--help')
  child.stdout!.destroy()
  const [errors, [status]] = await Promise.all([collect(child.stderr!), once(child, 'exit')])
  expect({ status, errors }).toEqual({ status: 0, errors: '' })
})

it('a full disk is told by the status', async () => {
  const full = openSync('/dev/full', 'w')
  const child = startWith(['ignore', full, 'pipe'], 'config')
  closeSync(full)
  expect(await once(child, 'exit')).toEqual([1, null])
})

it('demo ends when nobody looks any more', async () => {
  const child = start('demo', '--port', '0', '--users', '2', '--engines', '2')
  await once(createInterface({ input: child.stdout! }), 'line')
  child.stdout!.destroy()
  expect(await once(child, 'exit')).toEqual([0, null])
})

it('demo shows both sides, how to go on, and ends by itself', async () => {
  const { status, out, errors } = await run('demo', '--seconds', '1', '--port', '0', '--users', '2', '--engines', '2')
  expect({ status, errors }).toEqual({ status: 0, errors: '' })
  expect(out).toMatch(/First routed answer \d+\.\d s after/)
  expect(out).toMatch(/curl -i http:\S+\/v1\/chat\/completions/)
  expect(out).toContain('warmroute serve http://gpu1:8000')
  expect(out).toMatch(/prompt tokens found in a cache +\d+\.\d % +\d+\.\d %/)
  expect(out).toMatch(/time to first token, median +\d+ ms +\d+ ms/)
  expect(out).toContain('Everything is stopped.')
})

it('demo --disagg shows pairs beside engines that do both halves', async () => {
  const flags = ['--seconds', '1', '--port', '0', '--users', '2', '--engines', '2']
  const { status, out, errors } = await run('demo', '--disagg', ...flags)
  expect({ status, errors }).toEqual({ status: 0, errors: '' })
  expect(out).toContain('1 engines only prefill and 1 only decode')
  expect(out).toContain('warmroute serve prefill=http://gpu1:8000')
  expect(out).toMatch(/in pairs +one engine each/)
  expect(out).toMatch(/longest pause in an answer, p95 +\d+ ms +\d+ ms/)
  expect(out).not.toContain('failed')
})

it('check says by its exit status that something failed, and as JSON what', async () => {
  const { status, out } = await run('check', '127.0.0.1:1', '--json')
  expect(status).toBe(1)
  expect(JSON.parse(out)).toMatchObject({ verdict: 'fail', workers: [{ url: 'http://127.0.0.1:1', verdict: 'fail' }] })
})

it.each([
  { words: ['--version'], status: 0 },
  { words: ['demo', '--bogus'], status: 2 },
  { words: ['sim', '--faults', 'nope.json'], status: 2 },
])('$words ends with $status', async ({ words, status }) => {
  const ran = await run(...words)
  expect(ran.status).toBe(status)
  expect(ran.errors).not.toMatch(/^ {4}at /m)
  if (words[0] === '--version') expect(ran.out.trim()).toBe(JSON.parse(readFileSync('package.json', 'utf8')).version)
})

it('config --check refuses what serve would refuse', async () => {
  const twins = '["http://127.0.0.1:1","http://localhost:1/"]'
  const { status, errors, out } = await run('config', '--check', '--workers', twins)
  expect({ status, out }).toEqual({ status: 2, out: '' })
  expect(errors).toContain('one engine is named twice')
})

it('sim ends by itself when a port is taken', async () => {
  const { port } = await engine()
  const { status, errors } = await run('sim', '--port', String(port))
  expect({ status, errors }).toEqual({ status: 1, errors: expect.stringContaining(`port ${port} on`) as string })
})
