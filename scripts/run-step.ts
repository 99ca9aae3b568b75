/** Runs one command of a longer job, shows its output only when it matters, and says how long it took. */
import { spawnSync } from 'node:child_process'

export interface Step {
  readonly name: string
  readonly command: readonly string[]
  /** Pass the command's own output through as it comes. */
  readonly live?: boolean
}

/** Exits the process with the step's own status when it fails, so that the first failure is the last thing on the screen. */
export function runSteps(steps: readonly Step[]): void {
  for (const step of steps) {
    const started = performance.now()
    const [program, ...args] = step.command
    const result = spawnSync(program!, args, { stdio: step.live ? 'inherit' : 'pipe', encoding: 'utf8' })
    const seconds = ((performance.now() - started) / 1000).toFixed(1)
    if (result.status === 0) {
      console.log(`ok    ${step.name} (${seconds} s)`)
      continue
    }
    if (!step.live) process.stdout.write(`${result.stdout ?? ''}${result.stderr ?? ''}`)
    console.log(`FAIL  ${step.name} (${seconds} s): ${step.command.join(' ')}`)
    if (result.error) console.log(String(result.error))
    process.exit(result.status ?? 1)
  }
}
