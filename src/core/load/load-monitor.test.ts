import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import type { WorkerCapacity } from './load-monitor.js'
import { LoadMonitor } from './load-monitor.js'
import type { ActiveLoad } from './rank-load.js'
import type { LoadThresholds, MonitorVersion } from './thresholds.js'

const worker = 1n
const noLimit = { activePrefillTokensThreshold: 2 ** 53, activePrefillTokensThresholdFrac: 2 }
const decode60: LoadThresholds = { activeDecodeBlocksThreshold: 0.6, ...noLimit }
type Report = Omit<ActiveLoad, 'workerId' | 'dpRank'> & { readonly dpRank?: number }

function capacity(change: Partial<WorkerCapacity> = {}): WorkerCapacity {
  return { dataParallelStartRank: 0, dataParallelSize: 1, totalKvBlocks: 100, ...change }
}

/** A monitor of one worker with 100 blocks a rank that has seen these reports, in order. */
function monitorAfter(
  reports: readonly Report[],
  thresholds: LoadThresholds,
  options: { version?: MonitorVersion; capacity?: WorkerCapacity } = {},
): LoadMonitor {
  const monitor = new LoadMonitor({ version: options.version ?? '1.1', thresholds })
  monitor.reconcile(new Map([[worker, options.capacity ?? capacity()]]))
  for (const report of reports) monitor.report({ workerId: worker, dpRank: 0, ...report })
  return monitor
}

describe('the decode latch of 1.1', () => {
  it.each<[string, Report[], boolean]>([
    [
      'is set by engine-counted blocks even when our own count is low',
      [{ activeDecodeBlocks: 10, kvUsedBlocks: 90 }],
      true,
    ],
    ['is set by our own count when the engine reports none', [{ activeDecodeBlocks: 90 }], true],
    ['knows a rank from engine-counted blocks alone', [{ kvUsedBlocks: 90 }], true],
    [
      'stays set while the signal that set it has not reported calm',
      [{ kvUsedBlocks: 90 }, { activeDecodeBlocks: 10 }],
      true,
    ],
    [
      'clears once both signals are calm',
      [{ kvUsedBlocks: 90 }, { activeDecodeBlocks: 10 }, { kvUsedBlocks: 10 }],
      false,
    ],
    ['clears with only the engine signal ever reporting', [{ kvUsedBlocks: 90 }, { kvUsedBlocks: 10 }], false],
    ['clears with only our own signal ever reporting', [{ activeDecodeBlocks: 90 }, { activeDecodeBlocks: 10 }], false],
    [
      'clears when both report calm in one event',
      [{ activeDecodeBlocks: 90 }, { activeDecodeBlocks: 10, kvUsedBlocks: 10 }],
      false,
    ],
    ['is not set at the limit itself', [{ kvUsedBlocks: 60 }], false],
  ])('%s', (_says, reports, busy) => {
    expect(monitorAfter(reports, decode60).isBusy(worker)).toBe(busy)
  })

  it('is not created while the total is unknown or zero', () => {
    for (const totalKvBlocks of [undefined, 0]) {
      const { totalKvBlocks: _dropped, ...unknown } = capacity()
      const monitor = monitorAfter([{ kvUsedBlocks: 90 }], decode60, {
        capacity: totalKvBlocks === undefined ? unknown : capacity({ totalKvBlocks }),
      })
      expect(monitor.isBusy(worker)).toBe(false)
      monitor.reconcile(new Map([[worker, capacity()]]))
      expect(monitor.isBusy(worker)).toBe(true) // no latch: the stored values decide until the next report
    }
  })

  it('survives a threshold change, and a limit set while values are high uses the current values', () => {
    const late = monitorAfter([{ kvUsedBlocks: 90 }], { activePrefillTokensThreshold: 5 })
    expect(late.isBusy(worker)).toBe(false)
    expect(late.setThresholds({ activeDecodeBlocksThreshold: 0.6 })).toBe(true)
    expect(late.isBusy(worker)).toBe(true)

    const latched = monitorAfter([{ kvUsedBlocks: 70 }], decode60)
    latched.setThresholds({ activeDecodeBlocksThreshold: 0.9 })
    expect(latched.isBusy(worker)).toBe(true)
    latched.report({ workerId: worker, dpRank: 0, kvUsedBlocks: 70 })
    expect(latched.isBusy(worker)).toBe(false)
  })

  // Goal: no order of reports makes the latch disagree with its transcript.
  // Method: the model keeps every report and asks of each signal what it said last.
  it('is busy exactly while a signal that went busy has not reported calm since', () => {
    const signal = fc.option(fc.constantFrom(10, 60, 61, 90), { nil: undefined })
    fc.assert(
      fc.property(fc.array(fc.record({ active: signal, used: signal }), { maxLength: 30 }), (events) => {
        const monitor = monitorAfter([], decode60)
        let wasBusy = false
        for (const [step, { active, used }] of events.entries()) {
          monitor.report({
            workerId: worker,
            dpRank: 0,
            ...(active === undefined ? {} : { activeDecodeBlocks: active }),
            ...(used === undefined ? {} : { kvUsedBlocks: used }),
          })
          const said = events.slice(0, step + 1)
          const lastActive = said.findLast((it) => it.active !== undefined)?.active ?? 0
          const lastUsed = said.findLast((it) => it.used !== undefined)?.used ?? 0
          const spoke = (active ?? 0) > 60 || (used ?? 0) > 60
          wasBusy = spoke || (wasBusy && !(lastActive <= 60 && lastUsed <= 60))
          expect(monitor.isBusy(worker)).toBe(wasBusy)
        }
      }),
    )
  })
})

describe('the limits', () => {
  it.each<[string, LoadThresholds, Report, boolean]>([
    [
      'nothing is busy when no limit is set',
      {},
      { activeDecodeBlocks: 100, kvUsedBlocks: 100, activePrefillTokens: 1e9 },
      false,
    ],
    ['only a decode limit ignores prefill', { activeDecodeBlocksThreshold: 0.6 }, { activePrefillTokens: 1e9 }, false],
    [
      'only a prefill limit ignores decode',
      { activePrefillTokensThreshold: 1000 },
      { activeDecodeBlocks: 100, kvUsedBlocks: 100 },
      false,
    ],
    [
      'only a prefill multiple ignores decode',
      { activePrefillTokensThresholdFrac: 2 },
      { activeDecodeBlocks: 100, kvUsedBlocks: 100 },
      false,
    ],
    ['prefill tokens above the limit', { activePrefillTokensThreshold: 1000 }, { activePrefillTokens: 5000 }, true],
    ['prefill tokens at the limit', { activePrefillTokensThreshold: 1000 }, { activePrefillTokens: 1000 }, false],
    ['prefill tokens above the multiple', { activePrefillTokensThresholdFrac: 2 }, { activePrefillTokens: 2500 }, true],
    ['prefill tokens at the multiple', { activePrefillTokensThresholdFrac: 2 }, { activePrefillTokens: 2000 }, false],
    [
      'the multiple is truncated to whole tokens',
      { activePrefillTokensThresholdFrac: 0.0015 },
      { activePrefillTokens: 2 },
      true,
    ],
  ])('%s', (_says, thresholds, report, busy) => {
    const monitor = monitorAfter([report], thresholds, { capacity: capacity({ maxNumBatchedTokens: 1000 }) })
    expect(monitor.isBusy(worker)).toBe(busy)
  })

  it.each([
    ['limit', { activePrefillTokensThreshold: 1000 }],
    ['multiple', { activePrefillTokensThresholdFrac: 2 }],
  ])('a decode latch that is set means nothing to a monitor with only a prefill %s', (_says, prefill) => {
    const both = { activeDecodeBlocks: 90, kvUsedBlocks: 90 }
    const monitor = monitorAfter([both], { activeDecodeBlocksThreshold: 0.6, ...prefill })
    expect(monitor.isBusy(worker)).toBe(true)
    expect(monitor.setThresholds({ activeDecodeBlocksThreshold: null })).toBe(true)
    expect([monitor.isBusy(worker), monitor.thresholds]).toEqual([false, prefill])
  })

  it('an unknown batch size counts as ten million tokens', () => {
    const thresholds = { activePrefillTokensThresholdFrac: 0.5 }
    expect(monitorAfter([{ activePrefillTokens: 5_000_000 }], thresholds).isBusy(worker)).toBe(false)
    expect(monitorAfter([{ activePrefillTokens: 5_000_001 }], thresholds).isBusy(worker)).toBe(true)
  })

  it('one free rank keeps a worker free; a rank known only from its config does not count', () => {
    const two = capacity({ dataParallelStartRank: 4, dataParallelSize: 2 })
    const monitor = monitorAfter(
      [{ dpRank: 4, activePrefillTokens: 9 }],
      { activePrefillTokensThreshold: 5 },
      { capacity: two },
    )
    expect(monitor.isBusy(worker)).toBe(true)
    monitor.report({ workerId: worker, dpRank: 5, activePrefillTokens: 1 })
    expect(monitor.isBusy(worker)).toBe(false)
  })
})

describe('1.0', () => {
  it('has no latch and ignores engine-counted blocks', () => {
    const thresholds = { activeDecodeBlocksThreshold: 0.6 }
    expect(monitorAfter([{ kvUsedBlocks: 90 }], thresholds, { version: '1.0' }).isBusy(worker)).toBe(false)
    expect(monitorAfter([{ activeDecodeBlocks: 90 }], thresholds, { version: '1.0' }).isBusy(worker)).toBe(true)
    expect(
      monitorAfter([{ activeDecodeBlocks: 90 }, { activeDecodeBlocks: 10 }], thresholds, { version: '1.0' }).isBusy(
        worker,
      ),
    ).toBe(false)
  })

  it('reads all three limits back, in ten-thousandths', () => {
    expect(
      new LoadMonitor({ version: '1.0', thresholds: { activeDecodeBlocksThreshold: 0.12345 } }).thresholds,
    ).toEqual({
      activeDecodeBlocksThreshold: 0.1234,
      activePrefillTokensThreshold: 10_000_000,
      activePrefillTokensThresholdFrac: 1.5,
    })
  })
})

describe('the fleet', () => {
  it('names a departed worker with all ranks it was known by, and forgets its busy mark', () => {
    const monitor = monitorAfter([{ dpRank: 7, activePrefillTokens: 9 }], { activePrefillTokensThreshold: 5 })
    expect(monitor.busyWorkers).toEqual(new Set([worker]))
    expect(monitor.reconcile(new Map())).toEqual([{ workerId: worker, dpRanks: [0, 7] }])
    expect(monitor.busyWorkers.size).toBe(0)
  })

  it('keeps loads across a refresh that changes nothing', () => {
    const monitor = monitorAfter([{ activePrefillTokens: 9 }], { activePrefillTokensThreshold: 5 })
    expect(monitor.reconcile(new Map([[worker, capacity()]]))).toEqual([])
    expect(monitor.isBusy(worker)).toBe(true)
  })

  it('says whether a report changed the busy set', () => {
    const monitor = new LoadMonitor({ thresholds: { activePrefillTokensThreshold: 5 } })
    const tokens = [9, 8, 5, 4].map((activePrefillTokens) =>
      monitor.report({ workerId: 2n ** 64n - 1n, dpRank: 0, activePrefillTokens }),
    )
    expect(tokens).toEqual([true, false, true, false])
  })

  it('drops and counts reports of more workers than it may know', () => {
    const monitor = new LoadMonitor({ workersMax: 2, thresholds: { activePrefillTokensThreshold: 5 } })
    for (let id = 1n; id <= 5n; id++) monitor.report({ workerId: id, dpRank: 0, activePrefillTokens: 9 })
    expect([...monitor.busyWorkers]).toEqual([1n, 2n])
    expect(monitor.droppedReports).toBe(3)
  })
})

it('a stray publisher of ranks is dropped and counted', () => {
  const monitor = new LoadMonitor({ ranksMax: 2 })
  for (let dpRank = 0; dpRank < 5; dpRank++) monitor.report({ workerId: 1n, dpRank, activePrefillTokens: 1 })
  expect([monitor.ranksOf(1n), monitor.droppedReports]).toEqual([[0, 1], 3])
})
