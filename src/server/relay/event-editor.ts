/**
 * For the few streams in which something is changed: cuts the payload into whole events and passes each through `edit`.
 * Everything else is relayed without looking (`answer-relay.ts`).
 */
import { isUsageAlone } from './stream-watch.js'

export interface EventEdit {
  /** What to send now instead of the event: itself, another one, several, or nothing. */
  edit(event: Buffer): Buffer | undefined
  /** What was held back, when the stream ends. */
  flush?(): Buffer | undefined
}

const eventBytesMax = 4 * 1024 * 1024

export class EventEditor {
  readonly #edit: EventEdit
  #held: Buffer | undefined

  constructor(edit: EventEdit) {
    this.#edit = edit
  }

  /** What may be sent now. An event that is not whole yet is held back, unless it is larger than any event should be. */
  push(bytes: Buffer): Buffer | undefined {
    const buffer = this.#held ? Buffer.concat([this.#held, bytes]) : bytes
    this.#held = undefined
    const out: Buffer[] = []
    let at = 0
    for (;;) {
      const end = endOfEvent(buffer, at)
      if (end < 0) break
      const event = this.#edit.edit(buffer.subarray(at, end))
      if (event) out.push(event)
      at = end
    }
    if (at < buffer.length) {
      const rest = buffer.subarray(at)
      if (rest.length > eventBytesMax) out.push(rest)
      else this.#held = Buffer.from(rest)
    }
    if (out.length === 0) return undefined
    return out.length === 1 ? out[0] : Buffer.concat(out)
  }

  /** What is left when the stream ends, perhaps in the middle of an event. */
  rest(): Buffer | undefined {
    const flushed = this.#edit.flush?.()
    const rest = this.#held
    this.#held = undefined
    return joined(flushed, rest)
  }
}

function endOfEvent(buffer: Buffer, start: number): number {
  const plain = buffer.indexOf('\n\n', start)
  const before = plain < 0 ? buffer : buffer.subarray(0, plain) // not to the end again for every event
  const strict = before.indexOf('\r\n\r\n', start)
  if (strict >= 0) return strict + 4
  return plain < 0 ? -1 : plain + 2
}

/**
 * Takes out the event that only carries usage: we asked for it, the client did not. vLLM moves `system_fingerprint` from
 * the last event into that one, so the last event is held back until it is known whether it must get it again.
 */
export class UsageRemoval implements EventEdit {
  #last: Buffer | undefined

  edit(event: Buffer): Buffer | undefined {
    if (isUsageAlone(event)) {
      const fingerprint = /"system_fingerprint" ?: ?"[^"]*"/.exec(event.toString('latin1'))?.[0]
      if (fingerprint !== undefined && this.#last && !this.#last.includes('"system_fingerprint"'))
        this.#last = withMember(this.#last, fingerprint)
      return this.flush()
    }
    const before = this.flush()
    if (!/"finish_reason" ?: ?"/.test(event.toString('latin1'))) return joined(before, event)
    this.#last = Buffer.from(event)
    return before
  }

  flush(): Buffer | undefined {
    const last = this.#last
    this.#last = undefined
    return last
  }
}

function joined(first: Buffer | undefined, second: Buffer | undefined): Buffer | undefined {
  return first && second ? Buffer.concat([first, second]) : (first ?? second)
}

/** Puts a member into the JSON object of a `data:` event, at its end. Other events stay as they are. */
export function withMember(event: Buffer, member: string): Buffer {
  if (event[0] !== 0x64) return event
  const brace = event.lastIndexOf('}')
  const open = event.indexOf('{')
  if (brace < 0 || open < 0 || open > 8) return event
  const isEmpty = event.subarray(open + 1, brace).every((byte) => byte === 0x20)
  return Buffer.concat([event.subarray(0, brace), Buffer.from(`${isEmpty ? '' : ','}${member}`), event.subarray(brace)])
}
