/** Which engine is played, and which version of it. */
import { WarmrouteError } from '../../core/protocol/index.js'

export type EngineName = 'vllm' | 'sglang'

/** The versions whose bytes were recorded; the default. */
export const recordedVersions: Readonly<Record<EngineName, string>> = { vllm: '0.32.0', sglang: '0.5.23' }

/** From here on the batches have the form that is played. */
const oldestVersions: Readonly<Record<EngineName, string>> = { vllm: '0.9.1', sglang: '0.5.0' }

/** Throws `WR_INVALID_ARGUMENT` for a version whose events nobody has seen; later patches of the newest speak as it does. */
export function requireVersion(engine: EngineName, version: string): void {
  const [oldest, newest] = [oldestVersions[engine], recordedVersions[engine]]
  const number = versionNumber(version)
  // SGLang counts in the last place, vLLM in the one before.
  const isNewer = engine === 'vllm' ? minorOf(number) > minorOf(versionNumber(newest)) : number > versionNumber(newest)
  if (isNewer || number < versionNumber(oldest))
    throw new WarmrouteError('WR_INVALID_ARGUMENT', {
      reason: `${engine} ${version} is not known; versions from ${oldest} to ${newest} can be played`,
      version,
    })
}

function minorOf(number: number): number {
  return Math.floor(number / 1_000)
}

/** `0.27.1` as a number that compares: 0 027 001. */
export function versionNumber(version: string): number {
  const match = /^v?(\d+)\.(\d+)(?:\.(\d+))?/.exec(version)
  if (!match) throw new WarmrouteError('WR_INVALID_ARGUMENT', { reason: `${version} is no version`, version })
  return Number(match[1]) * 1_000_000 + Number(match[2]) * 1_000 + Number(match[3] ?? 0)
}
