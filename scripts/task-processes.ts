/** Tasks on several processes: the script that asks for them is forked, and each child takes tasks until none are left. */
import { fork } from 'node:child_process'

/** True in a child; what it is sent is a task, what it answers a result. */
export const isTaskProcess = process.send !== undefined

export function serveTasks<Task, Result>(run: (task: Task) => Result): void {
  process.on('message', (task: Task) => process.send!(run(task)))
  process.on('disconnect', () => process.exit())
}

export interface TaskRun<Task, Result> {
  readonly tasks: readonly Task[]
  readonly processes: number
  readonly nameOf: (task: Task) => string
  readonly done: (task: Task, result: Result) => void
}

/** Tells how far it is after every task: a line each, or one line over and over on a terminal. */
export async function runTasks<Task, Result>(script: string, run: TaskRun<Task, Result>): Promise<void> {
  const { tasks, processes, nameOf, done } = run
  const startMs = performance.now()
  const queue = [...tasks]
  let finished = 0
  const finish = (task: Task, result: Result): void => {
    done(task, result)
    finished++
    const leftSecs = ((performance.now() - startMs) / finished / 1000) * (tasks.length - finished)
    const text = `${finished}/${tasks.length}, ${nameOf(task)}, ${Math.ceil(leftSecs)} s left`
    process.stderr.write(process.stderr.isTTY ? `\r${text}\x1b[K` : `${text}\n`)
  }
  const count = Math.min(processes, tasks.length)
  await Promise.all(Array.from({ length: count }, () => work(script, queue, finish)))
  if (process.stderr.isTTY) process.stderr.write('\n')
}

function work<Task, Result>(
  script: string,
  queue: Task[],
  finish: (task: Task, result: Result) => void,
): Promise<void> {
  return new Promise((resolve, reject) => {
    const child = fork(script, process.argv.slice(2))
    let task: Task | undefined
    const next = (): void => {
      task = queue.shift()
      if (task === undefined) child.disconnect()
      else child.send(task as never)
    }
    child.on('message', (result: Result) => {
      finish(task!, result)
      next()
    })
    child.on('exit', (status) =>
      status === 0 ? resolve() : reject(new Error(`a process ended with status ${status}`)),
    )
    next()
  })
}
