/**
 * What kind of ZeroMQ socket listens at an address, before any event came: the ZMTP 3 greeting, then the READY command,
 * whose metadata names the socket type. `PUB` is an event stream, `ROUTER` a replay socket.
 */
import { connect } from 'node:net'

const signatureBytes = 64

/** Undefined: nobody there, not ZeroMQ, or too slow. */
export function probeSocketType(
  endpoint: string,
  ours: 'SUB' | 'DEALER',
  timeoutMs = 2000,
): Promise<string | undefined> {
  const match = /^tcp:\/\/(?:\[(.+)\]|([^[\]]+)):(\d+)$/.exec(endpoint)
  if (!match) return Promise.resolve(undefined)
  return new Promise((resolve) => {
    const socket = connect({ host: (match[1] ?? match[2])!, port: Number(match[3]) })
    const timer = setTimeout(() => finish(undefined), timeoutMs)
    let received: Buffer = Buffer.alloc(0)
    let isReadySent = false
    const finish = (type: string | undefined): void => {
      clearTimeout(timer)
      socket.destroy()
      resolve(type)
    }
    socket.on('error', () => finish(undefined))
    socket.on('close', () => finish(undefined))
    socket.on('connect', () => socket.write(greeting()))
    socket.on('data', (chunk) => {
      received = Buffer.concat([received, chunk])
      if (received.length > 4096) return finish(undefined)
      if (received.length < signatureBytes) return
      if (received[0] !== 0xff || received[9] !== 0x7f) return finish(undefined)
      if (!isReadySent) socket.write(ready(ours))
      isReadySent = true
      const type = readReady(received.subarray(signatureBytes))
      if (type !== undefined) finish(type)
    })
  })
}

function greeting(): Buffer {
  const bytes = Buffer.alloc(signatureBytes)
  bytes[0] = 0xff
  bytes[9] = 0x7f
  bytes[10] = 3 // version 3.0
  bytes.write('NULL', 12, 'latin1')
  return bytes
}

function ready(type: string): Buffer {
  const body = Buffer.concat([Buffer.from([5]), Buffer.from('READY'), property('Socket-Type', type)])
  return Buffer.concat([Buffer.from([0x04, body.length]), body])
}

function property(name: string, value: string): Buffer {
  const length = Buffer.alloc(4)
  length.writeUInt32BE(value.length)
  return Buffer.concat([Buffer.from([name.length]), Buffer.from(name), length, Buffer.from(value)])
}

/** The command frame after the greeting; undefined while it is not whole. */
function readReady(bytes: Buffer): string | undefined {
  if (bytes.length < 2 || bytes.length < 2 + bytes[1]!) return undefined
  const body = bytes.subarray(2, 2 + bytes[1]!)
  if (body.toString('latin1', 1, 6) !== 'READY') return ''
  let at = 6
  while (at + 1 < body.length) {
    const nameEnd = at + 1 + body[at]!
    if (nameEnd + 4 > body.length) break
    const valueEnd = nameEnd + 4 + body.readUInt32BE(nameEnd)
    if (body.toString('latin1', at + 1, nameEnd).toLowerCase() === 'socket-type') {
      return body.toString('latin1', nameEnd + 4, valueEnd)
    }
    at = valueEnd
  }
  return ''
}
