/** The policy classes of `router_policy_config`, read and judged at start. */
import { parse } from 'yaml'
import type { PolicyConfig } from '../core/queue/index.js'
import { parsePolicyConfig } from '../core/queue/index.js'
import { WarmrouteError } from '../core/protocol/index.js'
import { readConfigFile } from './read-config-file.js'

/** Throws `WR_INVALID_CONFIG` with everything that is wrong. */
export async function readPolicyConfig(path: string): Promise<PolicyConfig> {
  const { text } = await readConfigFile(path)
  let content: unknown
  try {
    content = parse(text, { uniqueKeys: true }) as unknown
  } catch (cause) {
    throw new WarmrouteError('WR_INVALID_CONFIG', { reason: `${path}: ${(cause as Error).message}`, path }, { cause })
  }
  return parsePolicyConfig(content)
}
