/** For tests of sources: a service, folders and one server at a time, all gone when their test is. */
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { createServer } from 'node:http'
import type { IncomingMessage, Server, ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { gunzipSync } from 'node:zlib'
import { afterAll, afterEach } from 'vitest'
import { TokenService } from '../token-service.js'
import { Tokens } from '../tokens.js'

const fixtures = new URL('../../../test/fixtures/', import.meta.url)
export const tokenizerJson: Buffer = gunzipSync(readFileSync(new URL('tinyllama/tokenizer.json.gz', fixtures)))
export const tokenizerConfig: Buffer = readFileSync(new URL('tinyllama/tokenizer_config.json', fixtures))
export const template: Buffer = readFileSync(new URL('tinyllama/chat_template.jinja', fixtures))

export type Handle = (request: IncomingMessage, body: string, response: ServerResponse) => void

export interface Places {
  readonly service: TokenService
  readonly listen: (handle: Handle) => Promise<string>
  readonly stopServer: () => Promise<void>
  readonly newFolder: () => string
  readonly idsOf: (model: string, route: 'chat' | 'completions' | 'responses', body: object) => Promise<number[]>
}

export function placesOfEachTest(): Places {
  const service = new TokenService({ threads: 1 })
  const folders: string[] = []
  let server: Server | undefined
  const stopServer = async (): Promise<void> => {
    server?.closeAllConnections()
    await new Promise<void>((resolve) => (server ? server.close(() => resolve()) : resolve()))
    server = undefined
  }
  afterAll(async () => {
    await service.close()
    for (const folder of folders) rmSync(folder, { recursive: true, force: true })
  })
  afterEach(stopServer)
  return {
    service,
    stopServer,
    async listen(handle) {
      server = createServer((request, response) => {
        let body = ''
        request.on('data', (chunk: Buffer) => (body += chunk.toString('utf8')))
        request.on('end', () => handle(request, body, response))
      })
      await new Promise<void>((resolve) => server!.listen(0, '127.0.0.1', resolve))
      return `http://127.0.0.1:${(server.address() as AddressInfo).port}`
    },
    newFolder() {
      const folder = mkdtempSync(join(tmpdir(), 'warmroute-tokens-'))
      folders.push(folder)
      return folder
    },
    async idsOf(model, route, body) {
      const result = await service.tokenizeRequest(model, route, body as never)
      if (!(result instanceof Tokens)) throw new Error(`${result.loadOnly}: ${result.detail}`)
      return [...result.ids]
    },
  }
}
