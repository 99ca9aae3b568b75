/**
 * A socket to an engine that reads all its bytes into memory which every such socket shares, and hands on a copy of what
 * came. Node would otherwise take 64 KB anew for each read and cut it down to the 200 bytes of a chunk, which costs more than
 * the copy (docs/decisions/0198-reads-land-in-one-place.md).
 */
import { connect } from 'node:net'
import type { Socket } from 'node:net'

/** As much as a read takes at once, which is what Node would offer. */
const landing = Buffer.allocUnsafeSlow(64 * 1024)

/** Tells its bytes with `data`, as any socket does: they are the listener's to keep. */
export function openEngineSocket({ host, port }: { readonly host: string; readonly port: number }): Socket {
  const socket = connect({
    host,
    port,
    onread: {
      buffer: landing,
      callback(size) {
        const bytes = Buffer.allocUnsafe(size)
        landing.copy(bytes, 0, 0, size)
        socket.emit('data', bytes)
        return true
      },
    },
  })
  return socket
}
