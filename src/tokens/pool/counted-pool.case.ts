/** A pool that counts what each of its threads encoded. Shared by the property of caches and the long fuzz run. */
import type { TaskOptions } from './pool.js'
import { TokenPool } from './pool.js'
import type { EncodeResult, TaskTypes } from './tasks.js'

export class CountedPool extends TokenPool {
  /** Texts, by thread. */
  readonly encodedBy: Map<number, number> = new Map<number, number>()

  override async run<Name extends keyof TaskTypes>(
    name: Name,
    task: TaskTypes[Name]['task'],
    options: TaskOptions,
  ): Promise<TaskTypes[Name]['result']> {
    const result = await super.run(name, task, options)
    if (name === 'encode') {
      const { thread } = (result as EncodeResult).held
      this.encodedBy.set(thread, (this.encodedBy.get(thread) ?? 0) + 1)
    }
    return result
  }
}
