/** TensorRT-LLM says little over HTTP; whether events are on shows only when polling stays empty after traffic. */
import type { EngineFacts } from '../engine-facts.js'
import { fact } from '../engine-facts.js'
import { asCount, asText, parseRecord } from '../json.js'
import type { Probe } from '../probe.js'

/** Tokens per block where the server does not say. */
const blockSizeDefault = 32

export async function trtllmFacts(probe: Probe): Promise<Omit<EngineFacts, 'kind'>> {
  const [version, info] = await Promise.all([probe.get('/version'), probe.get('/server_info')])
  const versionText = version?.status === 200 ? asText(parseRecord(version.text)?.['version']) : undefined
  const record = info?.status === 200 ? parseRecord(info.text) : undefined
  const blockSize = asCount(record?.['tokens_per_block'])
  const running = asCount(record?.['max_batch_size'])
  return {
    ...(versionText && { version: fact(versionText, '/version') }),
    blockSize: blockSize
      ? fact(blockSize, '/server_info tokens_per_block')
      : fact(blockSizeDefault, 'default, the server does not say'),
    ...(running && { runningRequestsMax: fact(running, '/server_info max_batch_size') }),
  }
}
