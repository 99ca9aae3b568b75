// A house with more models than Node takes for a leak: all of them are asked for their tokenizers at once.
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { expect, it } from 'vitest'
import { expectClosed } from '../../../test/closed-router.js'
import { warningsDuring } from '../../../test/warnings.js'
import { defaultRouterConfig } from '../../core/protocol/index.js'
import { Assembly } from './assembly.js'

const count = 14

/** One server for all of them, behind a path each; what they tell of their tokenizers comes when everybody was asked. */
function engines() {
  const waiting: (() => void)[] = []
  return createServer((request, response) => {
    request.resume()
    const [, at, ...rest] = request.url!.split('/')
    const path = `/${rest.join('/')}`
    const pages: Record<string, string> = {
      '/v1/models': JSON.stringify({ object: 'list', data: [{ id: `m${at}`, owned_by: 'vllm', max_model_len: 4096 }] }),
      '/metrics': 'vllm:cache_config_info{block_size="16",engine="0",num_gpu_blocks="101"} 1.0\n',
    }
    const answer = (): void => void response.writeHead(pages[path] === undefined ? 404 : 200).end(pages[path] ?? '{}')
    if (path !== '/tokenizer_info') return answer()
    waiting.push(answer)
    if (waiting.length === count) for (const it of waiting) it()
  })
}

it('is served without a warning', async () => {
  const server = engines()
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const base = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  const workers = Array.from({ length: count }, (_, at) => ({ url: `${base}/${at}` }))
  const assembly = new Assembly({ workers, config: defaultRouterConfig })
  const warnings = await warningsDuring(() => assembly.looked())
  expect(new Set(assembly.reports().map(({ model }) => model)).size).toBe(count)
  expect(warnings).toEqual([])
  await assembly.close()
  await expectClosed({ assembly })
  server.close().closeAllConnections()
})
