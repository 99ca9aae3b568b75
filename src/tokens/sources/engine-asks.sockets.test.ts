// One engine behind a real socket, asked directly: how long it is waited for, and what its failures say of it.
import type { ServerResponse } from 'node:http'
import { expect, it } from 'vitest'
import { EngineAsks } from './engine-asks.js'
import { failuresMax } from './engine-trouble.js'
import { placesOfEachTest } from './places.case.js'

const { listen } = placesOfEachTest()

const asksOf = (url: string, deadlineMs = 20_000): EngineAsks =>
  new EngineAsks({ url, dialect: 'vllm', deadlineMs }, undefined)
const never = (): void => undefined

it('requests that their askers leave say nothing against it', async () => {
  let stop = new AbortController()
  const asks = asksOf(await listen(() => stop.abort(new Error('the client left'))))
  for (let left = 0; left < failuresMax; left++) {
    stop = new AbortController()
    await expect(asks.encode('x', false, { signal: stop.signal })).rejects.toThrow('the client left')
  }
  expect(asks.trouble).toBeUndefined()
})

it.each([
  { own: 40, asker: 20_000 },
  { own: 20_000, asker: 40 },
  { own: 40, asker: undefined },
])('is waited for as long as the shorter of two deadlines: $own ms and $asker ms', async ({ own, asker }) => {
  const asks = asksOf(await listen(never), own)
  await expect(asks.encode('x', false, { deadlineMs: asker })).rejects.toMatchObject({
    details: { reason: 'no answer within 40 ms' },
  })
})

it.each([
  { status: 200, text: '{"tokens":[]}' },
  { status: 200, text: '{}' },
  { status: 500, text: '' },
])('is in trouble once it has answered a few times without tokens: $status $text', async ({ status, text }) => {
  const asks = asksOf(await listen((_, __, response) => response.writeHead(status).end(text)))
  const reason = `the engine answered ${status} without tokens`
  for (let left = failuresMax; left > 0; left--) {
    expect(asks.trouble).toBeUndefined()
    await expect(asks.encode('x', false, {})).rejects.toMatchObject({ details: { reason } })
  }
  expect(asks.trouble).toBe(`the engine answered ${status} to /tokenize without tokens`)
})

it('may be named with or without a slash at its end', async () => {
  const asked: string[] = []
  const url = await listen((request, _, response) => {
    asked.push(request.url!)
    response.writeHead(200).end('{"tokens":[1]}')
  })
  for (const end of ['', '/', '//']) expect([...(await asksOf(url + end).encode('x', false, {}))]).toEqual([1])
  expect(asked).toEqual(['/tokenize', '/tokenize', '/tokenize'])
})

it.each([true, false])('is told whether a text stands in special tokens: %s', async (isAdded) => {
  let asked: unknown
  const url = await listen((_, body, response) => {
    asked = JSON.parse(body)
    response.writeHead(200).end('{"tokens":[1]}')
  })
  await asksOf(url).encode('x', isAdded, {})
  expect(asked).toEqual({ prompt: 'x', add_special_tokens: isAdded })
})

it('tells of its tokenizer within a megabyte, and no more than that is read', async () => {
  const tell = (response: ServerResponse, length: number): void => {
    response.writeHead(200).end(JSON.stringify('x'.repeat(length - 2)))
  }
  let length = 1 << 20
  const asks = asksOf(await listen((_, __, response) => tell(response, length)))
  expect(await asks.info(undefined)).toMatchObject({ status: 200 })
  length++
  await expect(asks.info(undefined)).rejects.toMatchObject({
    details: { reason: 'the answer is longer than 1048576 bytes' },
  })
})
