/**
 * The floor: what the least possible proxy on a stock client costs. Parses the body, picks a worker in turn, relays. No
 * routing, no booking, no retry, no limits. Kept at about sixty lines on purpose.
 */
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { Pool } from 'undici'
import { reportUse } from '../use.js'

const ports = JSON.parse(process.argv[2]!) as number[]
const pools = ports.map(
  (port) =>
    new Pool(`http://127.0.0.1:${port}`, { connections: 4096, pipelining: 1, headersTimeout: 0, bodyTimeout: 0 }),
)
let turn = 0

const server = createServer((request, response) => {
  const parts: Buffer[] = []
  request.on('data', (part: Buffer) => parts.push(part))
  request.on('end', () => {
    const body = Buffer.concat(parts)
    JSON.parse(body.toString('utf8'))
    const pool = pools[turn++ % pools.length]!
    pool.dispatch(
      { path: request.url!, method: 'POST', headers: { 'content-type': 'application/json' }, body },
      {
        onRequestStart(controller) {
          response.on('close', () => {
            if (!response.writableFinished) controller.abort(new Error('the client left'))
          })
        },
        onResponseStart(_controller, status, headers) {
          delete headers['transfer-encoding']
          delete headers['connection']
          response.writeHead(status, headers)
        },
        onResponseData(controller, part) {
          if (response.write(part)) return
          controller.pause()
          response.once('drain', () => controller.resume())
        },
        onResponseEnd: () => void response.end(),
        onResponseError: () => void response.destroy(),
      },
    )
  })
})

server.listen(0, '127.0.0.1', () => {
  reportUse((server.address() as AddressInfo).port)
})
