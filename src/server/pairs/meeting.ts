/** A pair whose legs start together: what they agree on before either has computed anything. */
import { bootstrapRooms } from '../../core/prefill/index.js'
import type { Appointment, AppointmentInput } from '../../engines/index.js'
import { appointment, promptCount } from '../../engines/index.js'
import type { Worker } from '../workers/worker.js'
import type { Choice } from './prefill-runner.js'

export interface Meeting {
  readonly choice: Choice
  agreed: Appointment | undefined
  /** The prefill worker stays until it is asked, or never will be. */
  readonly letLeave: (() => void) | undefined
  /** Set while its KV may be read though its prefill is answered. */
  letGo?: (() => void) | undefined
}

export interface MeetingTerms extends Pick<AppointmentInput, 'connector' | 'body' | 'host'> {
  /** Uniform in [0, 1). */
  readonly draw: number
}

export function agree(meeting: Meeting, { config, spec }: Worker, terms: MeetingTerms): Appointment {
  const { draw, ...known } = terms
  const { bookingId, answer } = meeting.choice
  const dpRank = answer.dpRank - config.dataParallelStartRank
  const rooms = bootstrapRooms(draw, dpRank, config.dataParallelSize, promptCount(known.body))
  meeting.agreed = appointment({ ...known, facts: spec.transfer, dpRank, transferId: bookingId, rooms })
  return meeting.agreed
}
