import { once } from 'node:events'
import type { IncomingHttpHeaders } from 'node:http'
import { createServer, IncomingMessage } from 'node:http'
import type { AddressInfo } from 'node:net'
import { connect } from 'node:net'
import fc from 'fast-check'
import { afterEach, expect, it } from 'vitest'
import { KeptTable } from '../kept-table.js'
import { ClientMessage } from './client-message.js'

afterEach(() => KeptTable.ofProcess.collected())

/** What a server has of each head that is sent to it, over one connection. */
async function withServer(
  message: typeof IncomingMessage,
  run: (read: (head: string) => Promise<IncomingHttpHeaders>) => Promise<void>,
): Promise<void> {
  let told: (headers: IncomingHttpHeaders) => void = () => {}
  const server = createServer({ IncomingMessage: message }, (request, response) => {
    told(request.headers)
    response.end()
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  const socket = connect((server.address() as AddressInfo).port, '127.0.0.1').resume()
  await run((head) => {
    const headers = new Promise<IncomingHttpHeaders>((resolve) => (told = resolve))
    socket.write(`GET / HTTP/1.1\r\n${head}\r\n`)
    return headers
  })
  socket.destroy()
  server.close()
}

// biome-ignore format: a list of names
const names = ['Accept', 'age', 'Authorization', 'Content-Type', 'cookie', 'Cookie', 'ETag', 'expires', 'From', 'If-Modified-Since', 'if-unmodified-since', 'Last-Modified', 'location', 'Max-Forwards', 'Proxy-Authorization', 'Referer', 'Retry-After', 'server', 'Set-Cookie', 'User-Agent', 'Via', 'X-New', 'x-new', '__proto__', 'constructor']

// Goal: whoever reads a header finds what Node would have given. Method: both servers are sent the same heads, at random.
it('has the headers that Node has, whether their names are kept or not', async () => {
  await withServer(IncomingMessage, (usual) =>
    withServer(ClientMessage, async (own) => {
      const line = fc.tuple(fc.constantFrom(...names), fc.constantFrom('', 'a', 'b, c', 'd;e'))
      await fc.assert(
        fc.asyncProperty(fc.array(line, { maxLength: 12 }), fc.boolean(), async (lines, isKept) => {
          const head = `host: x\r\n${lines.map(([name, value]) => `${name}: ${value}\r\n`).join('')}`
          KeptTable.ofProcess.collected()
          if (!isKept) while (KeptTable.ofProcess.hasRoom(1)) KeptTable.ofProcess.keep(undefined)
          const unkeptBefore = KeptTable.ofProcess.unkept.head
          const [expected, headers] = [await usual(head), await own(head)]
          expect(KeptTable.ofProcess.unkept.head - unkeptBefore).toBe(isKept ? 0 : 1)
          for (const name of ['host', ...names.map((it) => it.toLowerCase())])
            expect([name, headers[name]]).toEqual([
              name,
              Object.hasOwn(expected, name) ? expected[name] : headers[name],
            ])
          expect(Object.keys(headers).filter((name) => name !== '__proto__')).toEqual(
            Object.keys(expected).filter((name) => name !== '__proto__'), // which Node drops
          )
        }),
        { numRuns: 200 },
      )
    }),
  )
})
