// A hub behind a real socket, in every way that one may fail, and the cache that it is kept in.
import { mkdirSync, readdirSync, utimesSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import type { ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { placesOfEachTest, template, tokenizerConfig, tokenizerJson } from './places.case.js'

const { service, listen, newFolder, idsOf } = placesOfEachTest()

describe('a hub', () => {
  const files: Readonly<Record<string, Buffer>> = {
    '/org/tiny/resolve/main/tokenizer.json': tokenizerJson,
    '/org/tiny/resolve/main/tokenizer_config.json': tokenizerConfig,
    '/org/tiny/resolve/main/chat_template.jinja': template,
    '/org/tiny/resolve/main/config.json': Buffer.from('{"vocab_size":32064}'),
  }

  it('is asked once; then its files are found in the cache', async () => {
    const asked: string[] = []
    const endpoint = await listen((request, _, response) => {
      asked.push(`${request.url} ${request.headers.authorization}`)
      const file = files[request.url ?? '']
      response.writeHead(file ? 200 : 404).end(file ?? 'no such file')
    })
    const hub = { endpoint, cacheFolder: newFolder(), token: 'secret' }
    expect(await service.setModel('org/tiny', { hub })).toMatchObject({ source: 'hub', encoder: 'own' })
    expect(await idsOf('org/tiny', 'completions', { prompt: 'Hello world' })).toEqual([1, 15043, 3186])
    expect(service.idMax('org/tiny')).toBe(32_063)
    expect(asked.every((it) => it.endsWith('Bearer secret'))).toBe(true)
    const before = asked.length
    expect(await service.setModel('org/tiny', { hub })).toMatchObject({ source: 'hub-cache' })
    expect(asked.length).toBe(before)
  })

  it('serves two models at once that have the same files, and leaves nothing half written behind', async () => {
    const waiting: (() => void)[] = []
    const endpoint = await listen((request, _, response) => {
      const file = files[request.url ?? '']
      waiting.push(() => void response.writeHead(file ? 200 : 404).end(file ?? ''))
      if (waiting.length === 2) for (const answer of waiting.splice(0)) answer() // both are written at the same time
    })
    const hub = { endpoint, cacheFolder: newFolder(), deadlineMs: 10_000 }
    const found = await Promise.all(['one', 'other'].map((name) => service.setModel(name, { model: 'org/tiny', hub })))
    expect(found).toMatchObject(Array(2).fill({ source: 'hub', tried: [] }))
    const kept = readdirSync(found[0]!.from!).toSorted()
    expect(kept).toEqual(['chat_template.jinja', 'config.json', 'tokenizer.json', 'tokenizer_config.json'])
  })

  it('is not asked for a name that is no repository, nor when it is not allowed', async () => {
    let asked = 0
    const endpoint = await listen((_, __, response) => {
      asked++
      response.writeHead(200).end('{}')
    })
    const hub = { endpoint, cacheFolder: newFolder() }
    for (const model of ['../etc/passwd', 'a/b/c', 'a b', 'org/..', '']) {
      expect(await service.setModel(model, { hub })).toMatchObject({ source: 'none' })
    }
    expect(await service.setModel('org/tiny', {})).toMatchObject({ source: 'none' })
    expect(service.idMax('org/tiny')).toBe(undefined)
    expect(asked).toBe(0)
  })

  it('that lacks the tokenizer leaves the model without one, and says why', async () => {
    const endpoint = await listen((_, __, response) => response.writeHead(404).end())
    const status = await service.setModel('org/none', { hub: { endpoint, cacheFolder: newFolder() } })
    expect(status.source).toBe('none')
    expect(status.tried.join()).toContain('404')
  })

  it.each([
    { says: 'knows nobody', reply: (it: ServerResponse) => it.writeHead(401).end('{}'), why: 'the hub answered 401' },
    {
      says: 'sends everybody to itself',
      reply: (it: ServerResponse) => it.writeHead(302, { location: '/org/odd/resolve/main/tokenizer.json' }).end(),
      why: 'fetch failed: redirect count exceeded',
    },
    {
      says: 'never ends a file',
      reply: (it: ServerResponse) => void it.writeHead(200).write('{'),
      why: 'no answer within 1000 ms',
    },
    {
      says: 'sends pages in place of files',
      reply: (it: ServerResponse) => it.writeHead(200).end('<html>'),
      why: 'tokenizer.json is no JSON',
    },
  ])('that $says leaves the model to its engine, and says why', async ({ reply, why }) => {
    const endpoint = await listen((request, _, response) => {
      if (request.url === '/v1/tokenize') return void response.writeHead(200).end('{"tokens":[5,6],"count":2}')
      reply(response)
    })
    const hub = { endpoint, cacheFolder: newFolder(), deadlineMs: 1000 }
    const engine = { url: endpoint, dialect: 'sglang' } as const
    expect(await service.setModel('org/odd', { hub, engine })).toMatchObject({ source: 'engine', tried: [why] })
    expect(await idsOf('org/odd', 'completions', { prompt: 'x' })).toEqual([5, 6])
  })

  it('that broke off leaves no template behind for a model that has none any more', async () => {
    let isBroken = true
    const endpoint = await listen((request, _, response) => {
      const isTemplate = request.url!.endsWith('chat_template.jinja')
      const file = isTemplate && !isBroken ? undefined : files[request.url ?? '']
      if (isBroken && request.url!.endsWith('/tokenizer.json')) response.writeHead(500).end()
      else response.writeHead(file ? 200 : 404).end(file ?? '')
    })
    const hub = { endpoint, cacheFolder: newFolder() }
    expect(await service.setModel('org/tiny', { hub })).toMatchObject({ source: 'none' })
    isBroken = false
    expect(await service.setModel('org/tiny', { hub })).toMatchObject({ source: 'hub' })
    const chat = { messages: [{ role: 'user', content: 'Hello' }] }
    expect(await service.tokenizeRequest('org/tiny', 'chat', chat)).toMatchObject({ loadOnly: 'no-template' })
  })

  it('gives the template that chats with tools take', async () => {
    const named = { '/org/tiny/resolve/main/additional_chat_templates/tool_use.jinja': Buffer.from('Hello world') }
    const endpoint = await listen((request, _, response) => {
      const file = { ...files, ...named }[request.url ?? '']
      response.writeHead(file ? 200 : 404).end(file ?? '')
    })
    await service.setModel('org/tiny', { hub: { endpoint, cacheFolder: newFolder() } })
    const tools = [{ type: 'function', function: { name: 'f' } }]
    const chat = { messages: [{ role: 'user', content: 'x' }], tools }
    expect(await idsOf('org/tiny', 'chat', chat)).toEqual([15043, 3186])
  })

  it.each([
    {
      says: 'tells that a model is in the format of Mistral',
      names: ['consolidated.safetensors', 'tekken.json'],
      wanted: 'own-renderer',
    },
    { says: 'tells that it is not', names: ['model.safetensors', 'tekken.json'], wanted: 'tokenizer' },
    { says: 'does not tell', names: undefined, wanted: 'tokenizer' },
    { says: 'tells something else', names: [null, 5, {}], wanted: 'tokenizer' },
  ])('that $says has its chats rendered so, now and from the cache', async ({ names, wanted }) => {
    const siblings = names?.map((it) => (typeof it === 'string' ? { rfilename: it } : it))
    const endpoint = await listen((request, _, response) => {
      const isList = request.url === '/api/models/org/tiny/revision/main'
      const file = isList ? siblings && JSON.stringify({ siblings }) : files[request.url ?? '']
      response.writeHead(file ? 200 : 404).end(file ?? '')
    })
    const hub = { endpoint, cacheFolder: newFolder() }
    for (const source of ['hub', 'hub-cache']) {
      expect(await service.setModel('org/tiny', { hub })).toMatchObject({ source })
      const result = await service.tokenizeRequest('org/tiny', 'chat', {
        messages: [{ role: 'user', content: 'Hello' }],
      })
      expect('loadOnly' in result ? result.loadOnly : result.source).toBe(wanted)
    }
  })

  it('gives the template that a processor has in its configuration', async () => {
    const processors = {
      '/org/tiny/resolve/main/processor_config.json': Buffer.from('{"chat_template":"Hello world"}'),
    }
    const endpoint = await listen((request, _, response) => {
      const file = { ...files, ...processors }[request.url ?? '']
      response.writeHead(file ? 200 : 404).end(file ?? '')
    })
    await service.setModel('org/tiny', { hub: { endpoint, cacheFolder: newFolder() } })
    expect(await idsOf('org/tiny', 'chat', { messages: [{ role: 'user', content: 'x' }] })).toEqual([15043, 3186])
  })

  it('is asked for one commit, though its branch moves on meanwhile', async () => {
    const [old, next] = ['a'.repeat(40), 'b'.repeat(40)]
    const asked: string[] = []
    const endpoint = await listen((request, _, response) => {
      asked.push(request.url!)
      const name = request.url!.replace(/resolve\/[^/]+/, 'resolve/main')
      const head = { 'x-repo-commit': asked.length === 1 ? old : next }
      response.writeHead(files[name] ? 200 : 404, head).end(files[name] ?? '')
    })
    const hub = { endpoint, cacheFolder: newFolder() }
    expect(await service.setModel('org/tiny', { hub })).toMatchObject({ source: 'hub' })
    expect(asked[0]).toContain('/resolve/main/')
    expect(asked.slice(1).every((it) => /\/(resolve|revision)\/([0-9a-f]+)/.exec(it)?.[2] === old)).toBe(true)
    expect(asked).toContain(`/api/models/org/tiny/revision/${old}`)
  })

  it('that sends us to another host does not have our token told to it', async () => {
    const told: (string | undefined)[] = []
    const other = await listen((request, _, response) => {
      told.push(request.headers.authorization)
      const file = files[request.url ?? '']
      response.writeHead(file ? 200 : 404).end(file ?? '')
    })
    const front = createServer((request, response) =>
      response.writeHead(307, { location: other + request.url!, connection: 'close' }).end(),
    )
    await new Promise<void>((resolve) => front.listen(0, '127.0.0.1', resolve))
    const endpoint = `http://127.0.0.1:${(front.address() as AddressInfo).port}`
    const hub = { endpoint, cacheFolder: newFolder(), token: 'secret' }
    const status = await service.setModel('org/tiny', { hub })
    await new Promise((resolve) => front.close(resolve).closeAllConnections())
    expect(status).toMatchObject({ source: 'hub' })
    expect(new Set(told)).toEqual(new Set([undefined]))
  })

  it('that never answers ends at the deadline', async () => {
    const endpoint = await listen(() => undefined)
    const hub = { endpoint, cacheFolder: newFolder(), deadlineMs: 50 }
    expect((await service.setModel('org/slow', { hub })).tried.join()).toContain('no answer within 50 ms')
  })

  it('that breaks off leaves nothing that could be taken for a whole file', async () => {
    const endpoint = await listen((request, _, response) => {
      if (!request.url?.endsWith('/tokenizer.json')) return void response.writeHead(404).end()
      response.writeHead(200, { 'content-length': tokenizerJson.length })
      response.write(tokenizerJson.subarray(0, 1000), () => response.destroy())
    })
    const hub = { endpoint, cacheFolder: newFolder() }
    expect(await service.setModel('org/broken', { hub })).toMatchObject({ source: 'none' })
    expect(await service.setModel('org/broken', { hubCache: hub.cacheFolder })).toMatchObject({ source: 'none' })
  })
})

it('of several snapshots takes the one that is asked for, else the newest, and never another than the one asked for', async () => {
  const cache = newFolder()
  const repository = join(cache, 'models--org--many')
  const snapshots = ['ccc', 'bbb', 'aaa', 'ddd', 'eee'].map((name, age) => {
    const folder = join(repository, 'snapshots', name)
    mkdirSync(folder, { recursive: true })
    if (name !== 'ddd') writeFileSync(join(folder, 'tokenizer.json'), tokenizerJson)
    utimesSync(folder, 2000 - age, name === 'bbb' ? 9000 : name === 'ddd' ? 9999 : 2000 - age)
    return folder
  })
  const asked: string[] = []
  const endpoint = await listen((request, _, response) => {
    asked.push(request.url!)
    response.writeHead(404).end()
  })
  const found = async (revision?: string): Promise<string | undefined> => {
    const hub = { endpoint, cacheFolder: cache, revision }
    return (await service.setModel('org/many', { hub })).from
  }
  expect(await found()).toBe(snapshots[1])
  mkdirSync(join(repository, 'refs'))
  writeFileSync(join(repository, 'refs', 'main'), 'aaa\n')
  writeFileSync(join(repository, 'refs', 'v2'), 'ccc')
  expect(await found()).toBe(snapshots[2])
  expect(await found('v2')).toBe(snapshots[0])
  expect(await found('eee')).toBe(snapshots[4])
  expect(asked).toEqual([])
  expect(await found('v3')).toBeUndefined()
  expect(asked.at(-1)).toBe('/org/many/resolve/v3/tokenizer.json')
})
