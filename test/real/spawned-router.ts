/** `warmroute serve` as a process of its own, with a snapshot folder: to be killed without warning and started again. */
import { spawn } from 'node:child_process'
import { randomInt } from 'node:crypto'
import { once } from 'node:events'
import { statSync } from 'node:fs'
import { createServer } from 'node:net'
import { join } from 'node:path'
import { command } from '../command.js'
import { eventually } from './real-house.js'

const startMs = 60_000

export interface SpawnedRouter {
  readonly url: string
  /** Its snapshot. */
  readonly file: string
  /** Settles when a snapshot was begun and written after this call. */
  saved(): Promise<void>
  kill(): void
}

export interface RouterPlace {
  readonly port: number
  readonly folder: string
  readonly engineUrls: readonly string[]
}

/** A snapshot ten times a second, so that little is left to replay. */
export function serveWords({ port, folder, engineUrls }: RouterPlace): string[] {
  const snapshots = ['--snapshot-folder', folder, '--snapshot-interval-secs', '0.1']
  return ['--port', String(port), '--log', 'off', ...snapshots, ...engineUrls]
}

export function snapshotFile({ port, folder }: RouterPlace): string {
  return join(folder, `caches-${port}.snapshot`)
}

/** Settles when it is exact with every engine. */
export async function spawnRouter(place: RouterPlace): Promise<SpawnedRouter> {
  const words = [...command, 'serve', ...serveWords(place)]
  const child = spawn(process.execPath, words, { stdio: ['ignore', 'ignore', 'inherit'] })
  const url = `http://127.0.0.1:${place.port}`
  const file = snapshotFile(place)
  const kill = (): void => void child.kill('SIGKILL')
  if (!(await eventually(() => isExact(url, place.engineUrls.length), startMs))) {
    kill()
    throw new Error('the router did not become exact')
  }
  return {
    url,
    file,
    kill,
    async saved() {
      for (let times = 0; times < 2; times++) {
        const before = modifiedAt(file)
        if (!(await eventually(() => modifiedAt(file) > before))) throw new Error('no snapshot was written')
      }
    },
  }
}

export async function isExact(url: string, workers: number): Promise<boolean> {
  const reply = await fetch(`${url}/workers`).catch(() => undefined)
  const body = (await reply?.json()) as { readonly workers: readonly { readonly mode: string }[] } | undefined
  return body?.workers.length === workers && body.workers.every(({ mode }) => mode === 'exact')
}

/** How ranks of the snapshot ended, by outcome. */
export async function restoreOutcomes(url: string): Promise<Record<string, number>> {
  const text = await (await fetch(`${url}/metrics`)).text()
  const found = text.matchAll(/^warmroute_snapshot_ranks_total\{outcome="(\w+)"\} (\d+)$/gm)
  return Object.fromEntries([...found].map(([, outcome, count]) => [outcome, Number(count)]))
}

export async function freePort(): Promise<number> {
  for (;;) {
    // Below those that systems give out: one of these may be somebody else's before the router listens.
    const port = randomInt(10_000, 32_000)
    const server = createServer().listen(port, '127.0.0.1')
    const isFree = await once(server, 'listening').then(
      () => true,
      () => false,
    )
    if (!isFree) continue
    await new Promise((resolve) => server.close(resolve))
    return port
  }
}

function modifiedAt(file: string): number {
  return statSync(file, { throwIfNoEntry: false })?.mtimeMs ?? 0
}
