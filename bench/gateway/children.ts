/** The processes of a benchmark: how they are started, and asked. */
import type { ChildProcess } from 'node:child_process'
import { fork } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { runSteps } from '../../scripts/run-step.js'

export interface Started<T> {
  readonly child: ChildProcess
  /** What it said first. */
  readonly first: T
}

/** Where the processes' files lie, and which flags run them. */
export interface Code {
  readonly folder: URL
  readonly flags: readonly string[]
}

export const sources: Code = { folder: new URL('./', import.meta.url), flags: ['--import', 'tsx'] }

/**
 * Compiled, as the package ships. Run from its sources a process would also hold the compiler, with a thread and 50 MB of its
 * own, and give every closure its name at run time.
 */
export function compileSources(): Code {
  runSteps([{ name: 'compile', command: ['tsc', '-p', fileURLToPath(new URL('tsconfig.json', sources.folder))] }])
  return { folder: new URL('../../.bench/compiled/bench/gateway/', sources.folder), flags: [] }
}

/** A file of this folder. It ends itself when its channel closes. */
export async function startChild<T>({ folder, flags }: Code, file: string, argument?: unknown): Promise<Started<T>> {
  const path = fileURLToPath(new URL(flags.length > 0 ? file : file.replace(/ts$/, 'js'), folder))
  const child = fork(path, argument === undefined ? [] : [JSON.stringify(argument)], {
    execArgv: [...flags, ...profileFlags()],
  })
  const first = await message<T>(child)
  child.unref()
  child.channel?.unref()
  return { child, first }
}

/** `BENCH_PROFILE=folder` writes a CPU profile of each process there when the benchmark ends. */
function profileFlags(): string[] {
  const folder = process.env['BENCH_PROFILE']
  return folder === undefined ? [] : ['--cpu-prof', `--cpu-prof-dir=${folder}`]
}

export function ask<T>(child: ChildProcess, what: unknown): Promise<T> {
  child.channel?.ref()
  const answer = message<T>(child)
  child.send(what as object)
  return answer.finally(() => child.channel?.unref())
}

function message<T>(child: ChildProcess): Promise<T> {
  return new Promise((resolve, reject) => {
    const onExit = (code: number | null): void => reject(new Error(`a process of the benchmark ended with ${code}`))
    child.once('exit', onExit)
    child.once('message', (value) => {
      child.off('exit', onExit)
      resolve(value as T)
    })
  })
}
