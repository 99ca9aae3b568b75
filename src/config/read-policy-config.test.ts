import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, it } from 'vitest'
import type { PolicyConfig } from '../core/queue/index.js'
import { readPolicyConfig } from './read-policy-config.js'

async function read(text: string): Promise<PolicyConfig> {
  const folder = await mkdtemp(join(tmpdir(), 'warmroute-policy-'))
  try {
    const path = join(folder, 'policy.yaml')
    await writeFile(path, text)
    return await readPolicyConfig(path)
  } finally {
    await rm(folder, { recursive: true })
  }
}

it('reads classes from YAML', async () => {
  const { root } = await read(`
default_policy_family: std
uncached_isl_buckets:
  - { min_tokens: 0, bucket: any }
policy_classes:
  - { name: std-any, policy_family: std, cache_bucket: any, prefill_busy_threshold_frac: 2, quantum: 5 }
`)
  expect(root?.classes).toMatchObject([{ name: 'std-any', quantum: 5, prefillBusyThresholdFrac: 2 }])
})

it.each([
  ['policy_classes: [', 'Flow sequence'],
  ['default_policy_family: nobody\n', 'nobody is no family'],
])('refuses %j', async (text, complaint) => {
  await expect(read(text)).rejects.toThrow(
    expect.objectContaining({ code: 'WR_INVALID_CONFIG', message: expect.stringContaining(complaint) as string }),
  )
})

it('says which file it could not read', async () => {
  await expect(readPolicyConfig('/nowhere/policy.yaml')).rejects.toThrow('/nowhere/policy.yaml cannot be read: ENOENT')
})
