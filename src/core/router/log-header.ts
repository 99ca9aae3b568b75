/** The first bytes of a log: what the router was made with, as far as a text can say it. */
import { FleetModel } from '../load/index.js'
import { WarmrouteError } from '../protocol/index.js'
import type { ByteReader, ByteWriter } from './byte-codec.js'
import { logMagic, logVersion } from './log-format.js'
import type { RouterCoreOptions } from './router-core.js'

export interface LogHeader {
  readonly config: RouterCoreOptions['config']
  readonly blockSize: number
  readonly label: RouterCoreOptions['label']
  readonly profile: RouterCoreOptions['profile']
  readonly startMs: number
  /** Durations were predicted by an estimator; its answers stand in the log. */
  readonly hasEstimator: boolean
  /** Durations were learned from what the log tells. Absent in logs from before there was such a thing. */
  readonly learnsPrefill?: boolean
  /** Events of this router were its own when they came back from peers. */
  readonly routerId: string | undefined
}

export function writeHeader(to: ByteWriter, options: RouterCoreOptions): void {
  const { config, blockSize, label, profile, startMs = 0, estimatePrefill, learner, replica } = options
  const hasEstimator = estimatePrefill !== undefined
  const header: LogHeader = {
    config,
    blockSize,
    label,
    profile,
    startMs,
    hasEstimator,
    learnsPrefill: learner !== undefined,
    routerId: replica && String(replica.routerId),
  }
  to.count(logMagic)
  to.count(logVersion)
  to.text(JSON.stringify(header))
}

/** Throws `WR_INVALID_LOG`. */
export function readHeader(from: ByteReader): LogHeader {
  if (from.count() !== logMagic) throw new WarmrouteError('WR_INVALID_LOG', { reason: 'it is no replay log' })
  const version = from.count()
  if (version !== logVersion) throw new WarmrouteError('WR_INVALID_LOG', { reason: `version ${version}` })
  try {
    return JSON.parse(from.text()) as LogHeader
  } catch (cause) {
    if (cause instanceof WarmrouteError) throw cause
    throw new WarmrouteError('WR_INVALID_LOG', { reason: 'its header cannot be read' }, { cause })
  }
}

/** Everything but the index, and a selector or a model of one's own. */
export function optionsOf(header: LogHeader): RouterCoreOptions {
  const { config, blockSize, label, profile, startMs, routerId, learnsPrefill } = header
  const replica = routerId === undefined ? undefined : { routerId: BigInt(routerId), port: { publish() {} } }
  return {
    config,
    blockSize,
    label,
    profile,
    startMs,
    replica,
    learner: learnsPrefill === true ? new FleetModel() : undefined,
  }
}
