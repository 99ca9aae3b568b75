// The deadline by a clock of the test's own: a template that is not stopped would hold a test rather than fail it.
import { describe, expect, it } from 'vitest'
import { Run } from './run.js'

function running(deadlineMs: number): { readonly run: Run; readonly wait: (ms: number) => void } {
  let now = 1000
  const run = new Run({ stepsMax: Infinity, outputMax: Infinity, deadlineMs }, () => now)
  return { run, wait: (ms) => void (now += ms) }
}

const outOfTime = expect.objectContaining({ limit: 'time' }) as Error

describe.each(['step', 'spend'] as const)('%s', (work) => {
  const manyTimes = (run: Run): void => {
    for (let at = 0; at < 2048; at++) run[work](1)
  }

  it('goes on until the deadline, and not beyond it', () => {
    const { run, wait } = running(10)
    manyTimes(run)
    wait(10)
    manyTimes(run)
    wait(1)
    expect(() => manyTimes(run)).toThrow(outOfTime)
  })
})

it('begins no work inside of a step for which there is no time', () => {
  const { run, wait } = running(10)
  run.spend(40_000) // about 8 ms
  wait(5)
  expect(() => run.spend(40_000)).toThrow(outOfTime)
})
