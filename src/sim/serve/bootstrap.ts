/**
 * SGLang's rendezvous between simulated engines. The prefill side serves rooms; a decode request opens its room and waits
 * there for the KV; a prefill request waits for its room to be opened before it computes anything. Either may come first.
 */
import { ask, SideChannel } from './side-channel.js'
import type { Line } from './side-channel.js'
import type { SimWorld } from './sim-world.js'
import { wait, within } from './sim-world.js'

interface Room {
  /** Resolves when the decode side has opened the room. */
  readonly opened: Promise<void>
  open: () => void
  answer: ((line: Line) => void) | undefined
  /** Resolves when the decode side went away. */
  left: Promise<void> | undefined
}

/** Rooms that wait for their other half; beyond this a new one is refused. */
const roomsMax = 10_000

export class BootstrapServer {
  readonly #rooms = new Map<number, Room>()
  readonly #channel: SideChannel
  readonly #world: SimWorld

  constructor(world: SimWorld) {
    this.#world = world
    this.#channel = new SideChannel(world.net, (line, answer, left) => this.#join(line, answer, left))
  }

  get port(): number {
    return this.#channel.port
  }

  get roomCount(): number {
    return this.#rooms.size
  }

  open(host: string, port: number): Promise<void> {
    return this.#channel.open(host, port)
  }

  close(): Promise<void> {
    this.#rooms.clear()
    return this.#channel.close()
  }

  /** Waits for the decode side; rejects when it does not come in time or the prefill's own client leaves. */
  async awaitDecode(room: number, waitMs: number, signal: AbortSignal): Promise<{ readonly left: Promise<void> }> {
    const it = this.#roomOf(room)
    const over = within(this.#world.clock, waitMs, signal)
    const late = new Promise<void>((resolve) => over.addEventListener('abort', () => resolve(), { once: true }))
    if (!signal.aborted) await Promise.race([it.opened, late])
    if (it.left && !signal.aborted) return { left: it.left }
    this.fail(room, 'the prefill side gave up')
    throw new Error(signal.aborted ? 'the client left' : 'nobody opened the room in time')
  }

  /** The KV is across: the decode side may go on. */
  complete(room: number): void {
    this.#rooms.get(room)?.answer?.({ done: true })
    this.#rooms.delete(room)
  }

  fail(room: number, reason: string): void {
    this.#rooms.get(room)?.answer?.({ error: reason })
    this.#rooms.delete(room)
  }

  #join(line: Line, answer: (line: Line) => void, left: Promise<void>): void {
    const room = Number(line['room'])
    if (!Number.isSafeInteger(room) || this.#rooms.size >= roomsMax) return answer({ error: 'no such room' })
    const it = this.#roomOf(room)
    if (it.answer) return answer({ error: 'the room is taken' })
    it.answer = answer
    it.left = left
    it.open()
    void left.then(() => {
      if (this.#rooms.get(room) === it) this.#rooms.delete(room)
    })
  }

  #roomOf(room: number): Room {
    const known = this.#rooms.get(room)
    if (known) return known
    let open = (): void => {}
    const opened = new Promise<void>((resolve) => {
      open = resolve
    })
    const fresh: Room = { opened, open, answer: undefined, left: undefined }
    this.#rooms.set(room, fresh)
    return fresh
  }
}

/**
 * The decode side: opens a room and waits there. Rejects when the prefill side fails or takes too long; that it died is found
 * out by two heartbeats in vain.
 */
export async function awaitPrefill(
  { clock, net }: SimWorld,
  where: { readonly host: string; readonly port: number; readonly room: number },
  { rendezvousMs, heartbeatMs }: { readonly rendezvousMs: number; readonly heartbeatMs: number },
  signal: AbortSignal,
): Promise<void> {
  const limit = within(clock, rendezvousMs, signal)
  let answer: Line
  try {
    answer = await ask(net, where, { room: where.room }, limit)
  } catch (error) {
    if (!limit.aborted) await wait(clock, 2 * heartbeatMs)
    throw error
  }
  if (answer['done'] !== true) throw new Error(String(answer['error']))
}
