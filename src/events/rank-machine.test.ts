import { describe, expect, it } from 'vitest'
import type { RankLimits } from './rank-rules.js'
import { RankMachine } from './rank-machine.js'

// A payload is two bytes: its time and its content. Time is an argument; what the machine asks for is written down.
const at = (time: number, content = 0): Uint8Array => Uint8Array.of(time, content)

function setUp(options: { hasReplay?: boolean; limits?: Partial<RankLimits> } = {}) {
  const log: string[] = []
  const machine = new RankMachine(
    {
      apply: (payload) => {
        log.push(`apply ${payload[0]}`)
        return payload[1] === 255 ? 'truncated' : undefined
      },
      purge: (reason) => void log.push(`purge ${reason}`),
      requestReplay: (from, ticket) => void log.push(`replay ${from} #${ticket}`),
      timestampOf: (payload) => payload[0]!,
    },
    { hasReplay: options.hasReplay ?? true, ...(options.limits && { limits: options.limits }) },
  )
  const take = () => log.splice(0)
  const ticket = () => Number(/#(\d+)/.exec([...log].reverse().find((line) => line.startsWith('replay')) ?? '')?.[1])
  return { machine, take, ticket }
}

/** A live rank that has applied batches 0, 1, 2 with times 10, 11, 12. */
function live(options: Parameters<typeof setUp>[0] = {}) {
  const it = setUp(options)
  it.machine.connected(0)
  if (options.hasReplay ?? true) it.machine.replayEnded(it.ticket(), 0)
  for (const sequence of [0, 1, 2]) it.machine.frame(sequence, at(10 + sequence), 0)
  it.take()
  return it
}

describe('joining', () => {
  it('asks for everything first, and holds live frames until the replay is over', () => {
    const { machine, take, ticket } = setUp()
    expect(machine.state).toBe('connecting')
    machine.connected(0)
    expect(machine.state).toBe('recovering')
    const asked = ticket()
    machine.frame(2, at(12), 0)
    machine.replayFrame(asked, 0, at(10), 0)
    machine.replayFrame(asked, 1, at(11), 0)
    machine.replayFrame(asked, 2, at(12), 0)
    machine.replayEnded(asked, 0)
    expect(take()).toEqual([`replay 0 #${asked}`, 'apply 10', 'apply 11', 'apply 12'])
    expect(machine).toMatchObject({ state: 'live', lastSequence: 2, isComplete: true })
    expect(machine.counters.stale).toBe(1)
  })

  it('knows that it is late when the ring no longer reaches back', () => {
    const { machine, ticket } = setUp()
    machine.connected(0)
    machine.replayFrame(ticket(), 31, at(41), 0)
    machine.replayEnded(ticket(), 0)
    expect(machine).toMatchObject({ state: 'live', lastSequence: 31, isComplete: false })
  })

  it('starts from the live stream where there is no replay socket', () => {
    const { machine, take } = setUp({ hasReplay: false })
    machine.connected(0)
    machine.frame(7, at(17), 0)
    machine.frame(8, at(18), 0)
    expect(take()).toEqual(['apply 17', 'apply 18'])
    expect(machine).toMatchObject({ state: 'live', isComplete: false })
  })
})

describe('gaps', () => {
  it('replays from the last applied batch and goes on when the engine shows it unchanged', () => {
    const { machine, take, ticket } = live()
    machine.frame(5, at(15), 0)
    expect(machine.state).toBe('recovering')
    const asked = ticket()
    for (const sequence of [2, 3, 4, 5]) machine.replayFrame(asked, sequence, at(10 + sequence), 0)
    machine.replayEnded(asked, 0)
    expect(take()).toEqual([`replay 2 #${asked}`, 'apply 13', 'apply 14', 'apply 15'])
    expect(machine).toMatchObject({ state: 'live', lastSequence: 5, isComplete: true })
  })

  it('purges when the ring has moved past the gap, and keeps what the replay proves', () => {
    const { machine, take, ticket } = live()
    machine.frame(9, at(19), 0)
    machine.replayFrame(ticket(), 8, at(18), 0)
    machine.replayFrame(ticket(), 9, at(19), 0)
    machine.replayEnded(ticket(), 0)
    expect(take().slice(1)).toEqual(['purge history_gone', 'apply 18', 'apply 19'])
    expect(machine).toMatchObject({ state: 'live', lastSequence: 9, isComplete: false })
  })

  it('purges at once where nothing can be replayed', () => {
    const { machine, take } = live({ hasReplay: false })
    machine.frame(4, at(14), 0)
    expect(take()).toEqual(['purge gap', 'apply 14'])
    expect(machine).toMatchObject({ state: 'live', isComplete: false })
  })

  it('asks again when frames were lost while the replay ran', () => {
    const { machine, take, ticket } = live()
    machine.frame(4, at(14), 0)
    const first = ticket()
    machine.frame(6, at(16), 0)
    for (const sequence of [2, 3, 4]) machine.replayFrame(first, sequence, at(10 + sequence), 0)
    machine.replayEnded(first, 0)
    const second = ticket()
    expect(second).not.toBe(first)
    for (const sequence of [4, 5, 6]) machine.replayFrame(second, sequence, at(10 + sequence), 0)
    machine.replayEnded(second, 0)
    expect(take().filter((line) => line.startsWith('apply'))).toEqual(['apply 13', 'apply 14', 'apply 15', 'apply 16'])
    expect(machine.state).toBe('live')
  })
})

describe('restarts', () => {
  it('is no repeat but a restart when an old number comes with new content', () => {
    const { machine, take, ticket } = live()
    machine.frame(1, at(11), 0) // a repeat
    expect(machine.state).toBe('live')
    machine.frame(0, at(20), 0)
    machine.replayFrame(ticket(), 2, at(22), 0) // the new process has a batch 2 of its own
    const fromZero = ticket()
    for (const sequence of [0, 1, 2]) machine.replayFrame(fromZero, sequence, at(20 + sequence), 0)
    machine.replayEnded(fromZero, 0)
    expect(take().slice(1)).toEqual(['purge restart', `replay 0 #${fromZero}`, 'apply 20', 'apply 21', 'apply 22'])
    expect(machine.counters).toMatchObject({ stale: 2, restarts: 1 })
  })

  it('is a restart when the engine cannot show the batch it once sent', () => {
    const { machine, take, ticket } = live()
    machine.disconnected(100)
    expect(machine.state).toBe('suspect')
    machine.connected(200)
    machine.replayEnded(ticket(), 200)
    machine.replayEnded(ticket(), 200) // of the second question, from 0
    expect(take()).toContain('purge restart')
    expect(machine).toMatchObject({ state: 'live', lastSequence: -1, isComplete: true })
  })

  it('finds a restarted engine whose numbers have already passed ours', () => {
    const { machine, take, ticket } = live()
    machine.disconnected(100)
    machine.connected(60_000)
    machine.replayFrame(ticket(), 2, at(22), 0)
    expect(take()).toContain('purge restart')
  })

  it('keeps everything when only the network blinked', () => {
    const { machine, take, ticket } = live()
    machine.disconnected(100)
    machine.connected(200)
    machine.replayFrame(ticket(), 2, at(12), 200)
    machine.replayEnded(ticket(), 200)
    expect(take().some((line) => line.startsWith('purge'))).toBe(false)
    expect(machine).toMatchObject({ state: 'live', isComplete: true })
  })

  it.each([1, 1341, 5000])('does not take the next number as a proof after %i ms, where it cannot ask', (ms) => {
    const { machine, take } = live({ hasReplay: false })
    machine.disconnected(100)
    expect(machine.state).toBe('suspect')
    machine.connected(100 + ms)
    machine.frame(3, at(13), 100 + ms)
    expect(take()).toEqual(['purge reconnect', 'apply 13'])
    expect(machine).toMatchObject({ state: 'live', isComplete: false })
  })

  it.each([true, false])(
    'begins a connection once when its first frame comes before its notice (replay: %s)',
    (hasReplay) => {
      const { machine, take } = live({ hasReplay })
      machine.disconnected(100)
      machine.frame(0, at(20), 200)
      const first = take()
      machine.connected(201)
      machine.frame(1, at(21), 202)
      expect(first.map((line) => line.split(' #')[0])).toEqual(
        hasReplay ? ['replay 2'] : ['purge reconnect', 'apply 20'],
      )
      expect(take()).toEqual(hasReplay ? [] : ['apply 21'])
      machine.connected(300) // without notice of the end of the one before
      expect(take().map((line) => line.split(' #')[0])).toEqual(hasReplay ? ['replay 2'] : ['purge reconnect'])
    },
  )

  it('drops everything when somebody else saw the restart', () => {
    const { machine, take, ticket } = live()
    machine.incarnationChanged(0)
    expect(take()).toEqual(['purge restart', expect.stringMatching(/^replay 0/) as string])
    machine.replayEnded(ticket(), 0)
    expect(machine.counters.restarts).toBe(1)
  })
})

describe('silence, floods and failures', () => {
  it('forgets a rank that stays away', () => {
    const { machine, take } = live()
    machine.disconnected(100)
    machine.tick(10_099)
    expect(take()).toEqual([])
    machine.tick(10_100)
    expect(take()).toEqual(['purge silence'])
    expect(machine.state).toBe('connecting')
  })

  it('asks a silent rank for its last batch, and stays live meanwhile', () => {
    const { machine, take, ticket } = live()
    machine.tick(29_999)
    expect(take()).toEqual([])
    machine.tick(30_000)
    expect(machine).toMatchObject({ state: 'live' })
    machine.replayFrame(ticket(), 2, at(12), 30_100)
    machine.replayFrame(ticket(), 3, at(13), 30_100) // it had been lost, and nothing came after it
    machine.replayEnded(ticket(), 30_100)
    expect(machine).toMatchObject({ state: 'live', lastSequence: 3 })
    expect(machine.counters.probes).toBe(1)
  })

  it('waits for what may be on its way when a probe finds only newer batches, and purges when it never comes', () => {
    const { machine, take, ticket } = live()
    machine.tick(30_000)
    machine.replayFrame(ticket(), 5, at(15), 30_000)
    expect(machine).toMatchObject({ state: 'live', lastSequence: 2, nextDeadline: 31_000 })
    machine.tick(31_000)
    machine.replayFrame(ticket(), 5, at(15), 31_000)
    machine.replayEnded(ticket(), 31_000)
    expect(take()).toContain('purge history_gone')
    expect(machine).toMatchObject({ state: 'live', lastSequence: 5 })
  })

  it('takes nothing from a probe that cannot show what was asked for, not even the next batch', () => {
    const { machine, take, ticket } = live()
    machine.tick(30_000)
    machine.replayFrame(ticket(), 3, at(23), 30_000) // of whom? A restarted engine with a short ring answers like this
    expect(machine).toMatchObject({ state: 'live', lastSequence: 2 })
    machine.frame(3, at(13), 30_001)
    expect(take().slice(1)).toEqual(['apply 13'])
    expect(machine.counters).toMatchObject({ stale: 0, purges: 0 })
  })

  it('retries a replay that fails, then gives up what it cannot prove', () => {
    const { machine, take } = live({ limits: { replayAttemptsMax: 2 } })
    machine.frame(4, at(14), 0)
    machine.tick(5000)
    expect(machine.state).toBe('recovering')
    machine.tick(5200)
    machine.tick(10_200)
    expect(take().map((line) => line.split(' #')[0])).toEqual([
      'replay 2',
      'replay 2',
      'purge replay_failed',
      'replay 0',
    ])
  })

  it('drops a flood that outruns a replay, waits, and resyncs', () => {
    const { machine, take } = live({ limits: { heldFramesMax: 3 } })
    for (const sequence of [4, 5, 6, 7]) machine.frame(sequence, at(10 + sequence), 0)
    expect(machine).toMatchObject({ state: 'suspect', heldFrames: 0 })
    machine.frame(8, at(18), 10)
    machine.tick(1000)
    expect(take().map((line) => line.split(' #')[0])).toEqual(['replay 2', 'purge overrun', 'replay 0'])
    expect(machine.counters).toMatchObject({ overruns: 1, droppedFrames: 5 })
  })

  it('purges after a batch that cannot be read, and does not ask for it again', () => {
    const { machine, take } = live()
    machine.frame(3, at(13, 255), 0)
    machine.frame(4, at(14), 0)
    expect(take()).toEqual(['apply 13', 'purge undecodable', 'apply 14'])
    expect(machine).toMatchObject({ state: 'live', isComplete: false })
  })

  it('ignores replies of a replay that it no longer waits for', () => {
    const { machine, take, ticket } = live()
    machine.frame(4, at(14), 0)
    const old = ticket()
    machine.disconnected(0)
    machine.replayFrame(old, 2, at(12), 0)
    machine.replayEnded(old, 0)
    machine.replayFailed(old, 0)
    expect(take()).toHaveLength(1)
    expect(machine.state).toBe('suspect')
  })

  it('is gone for good when its worker leaves', () => {
    const { machine, take } = live()
    machine.leave()
    machine.connected(0)
    machine.frame(3, at(13), 0)
    expect(take()).toEqual(['purge left'])
    expect(machine.state).toBe('gone')
    expect(machine.nextDeadline).toBe(Number.POSITIVE_INFINITY)
  })
})

describe('warm restart', () => {
  it('continues restored knowledge when the engine shows the saved batch unchanged', () => {
    const { machine, take, ticket } = setUp()
    machine.restore(live().machine.anchor()!, true)
    machine.connected(0)
    expect(machine.state).toBe('recovering')
    machine.replayFrame(ticket(), 2, at(12), 0)
    machine.replayFrame(ticket(), 3, at(13), 0)
    machine.replayEnded(ticket(), 0)
    expect(take().slice(1)).toEqual(['apply 13'])
    expect(machine).toMatchObject({ state: 'live', lastSequence: 3, isComplete: true })
  })

  it('drops restored knowledge when the engine is another, or cannot be asked', () => {
    const saved = live().machine.anchor()!
    const other = setUp()
    other.machine.restore(saved, true)
    other.machine.connected(0)
    other.machine.replayFrame(other.ticket(), 2, at(99), 0)
    expect(other.take()).toContain('purge restart')
    const mute = setUp({ hasReplay: false })
    mute.machine.restore(saved, true)
    mute.machine.connected(0)
    expect(mute.take()).toEqual(['purge reconnect'])
  })
})
