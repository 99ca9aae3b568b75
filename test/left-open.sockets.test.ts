// Goal: what every suite is checked for after its last test would be found if it were there.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { connect, createServer } from 'node:net'
import type { AddressInfo } from 'node:net'
import { afterEach, expect, it, vi } from 'vitest'
import { Dealer, Publisher } from 'zeromq'
import { leftOpen } from './left-open.js'

afterEach(() => vi.waitFor(() => expect(leftOpen()).toEqual([])))

it('sees a server and a connection until they are closed', async () => {
  const server = createServer().listen(0, '127.0.0.1')
  await once(server, 'listening')
  const client = connect((server.address() as AddressInfo).port, '127.0.0.1')
  const [[accepted]] = (await Promise.all([once(server, 'connection'), once(client, 'connect')])) as [
    [typeof client],
    [],
  ]
  expect(leftOpen().sort()).toEqual(['TCPServerWrap', 'TCPSocketWrap', 'TCPSocketWrap'])
  const closed = [once(client, 'close'), once(accepted, 'close'), once(server, 'close')]
  client.destroy()
  accepted.destroy()
  server.close()
  await Promise.all(closed)
})

it('sees a child process until it has ended', async () => {
  const child = spawn(process.execPath, ['-e', 'process.stdin.resume()'], { stdio: ['pipe', 'ignore', 'ignore'] })
  await once(child, 'spawn')
  expect(leftOpen()).toEqual(['ProcessWrap'])
  child.stdin.end()
  await once(child, 'close')
})

it('sees ZeroMQ sockets, which Node does not', async () => {
  const [publisher, dealer] = [new Publisher(), new Dealer()]
  await publisher.bind('tcp://127.0.0.1:*')
  dealer.connect('tcp://127.0.0.1:9')
  expect(leftOpen()).toEqual(['ZeroMQ socket of type 1', 'ZeroMQ socket of type 5'])
  publisher.close()
  dealer.close()
})
