/** Which engine is played, and which version of it. */
import { WarmrouteError } from '../../core/protocol/index.js'

export type EngineName = 'vllm' | 'sglang'

/** The versions whose bytes were recorded; the default. */
export const recordedVersions: Readonly<Record<EngineName, string>> = { vllm: '0.32.0', sglang: '0.5.23' }

/** `0.27.1` as a number that compares: 0 027 001. */
export function versionNumber(version: string): number {
  const match = /^v?(\d+)\.(\d+)(?:\.(\d+))?/.exec(version)
  if (!match) throw new WarmrouteError('WR_INVALID_ARGUMENT', { reason: `${version} is no version`, version })
  return Number(match[1]) * 1_000_000 + Number(match[2]) * 1_000 + Number(match[3] ?? 0)
}
