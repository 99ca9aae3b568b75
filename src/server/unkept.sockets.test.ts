/** A request is answered alike, and an engine gets the same, whether V8 keeps its names and texts or not (docs/decisions/0273). */
import { request as httpRequest } from 'node:http'
import { afterEach, expect, it } from 'vitest'
import { createMetrics } from '../telemetry/index.js'
import type { House } from './house.case.js'
import { chatBody, houseOfEachTest } from './house.case.js'
import { KeptTable } from './kept-table.js'

const open = houseOfEachTest()

/** Nothing that is new may be kept any more, until a collection. */
function useUp(): void {
  while (KeptTable.ofProcess.hasRoom(1)) KeptTable.ofProcess.keep(undefined)
}

afterEach(() => KeptTable.ofProcess.collected())

interface Sent {
  readonly path?: string
  readonly body: string
  readonly headers?: Readonly<Record<string, string | string[]>>
}

let cases = 0
const fresh = (): string => `w${(cases++).toString(36).padStart(6, '0')}`

/** With the words in place of `#`. */
function written({ path, body, headers }: Sent, word: string): Required<Sent> {
  const put = (text: string): string => text.replaceAll('#', word)
  const lines = Object.entries(headers ?? {}).map(([name, value]) => [
    put(name),
    typeof value === 'string' ? put(value) : value.map(put),
  ])
  return { path: path ?? '/v1/chat/completions', body: put(body), headers: Object.fromEntries(lines) as Sent['headers'] & object } // biome-ignore format: short
}

function send({ url }: House, { path, body, headers }: Required<Sent>): Promise<string> {
  return new Promise((resolve, reject) => {
    const options = {
      method: 'POST',
      headers: { 'content-type': 'application/json', 'x-request-id': 'one', ...headers },
    }
    const request = httpRequest(`${url}${path}`, options, (response) => {
      let text = `${response.statusCode} `
      response.setEncoding('utf8').on('data', (more: string) => (text += more)).on('end', () => resolve(text)) // biome-ignore format: short
    })
    request.once('error', reject).end(body)
  })
}

const listOf = (count: number, make: (at: number) => string): string => Array.from({ length: count }, (_, at) => make(at)).join() // biome-ignore format: short
const plain = '"model":"m","messages":[{"role":"user","content":"hi"}]'
const stops = `"sampling_params":{"stop":[${listOf(150, () => '"a"')}]}`

const requests: readonly (readonly [says: string, sent: Sent])[] = [
  ['a chat', { body: chatBody({ stop: ['#'], metadata: { '#': '#' } }) }],
  ['a stream', { body: chatBody({ stream: true, stream_options: { include_usage: true, '#': 1 } }) }],
  ['a stream that is asked for its usage', { body: chatBody({ stream: true, stream_options: { include_usage: false, '#': { '#': 1.0 } } }) }], // biome-ignore format: short
  ['no wish for a stream', { body: chatBody({ stream: false, '#': '\u0007#"\\' }) }],
  ['fields that steer an engine', { body: chatBody({ kv_transfer_params: { '#': 1 }, priority: 3, rid: '#' }) }],
  ['transfer parameters among arguments', { body: chatBody({ vllm_xargs: { '#': 1, '#kv_transfer_params': 2 } }) }],
  ['harmless arguments', { body: chatBody({ vllm_xargs: { '#': '#', kv_cache_report_mode: 'all' } }) }],
  ['a salt', { body: chatBody({ cache_salt: '#' }) }],
  ['a salt of a tenant', { body: chatBody({ '#': 1 }), headers: { 'X-Tenant-Id': '#' } }],
  ['a worker that is named', { body: chatBody({ nvext: { backend_instance_id: 2, '#': [] } }) }],
  ['one that is named in a header', { body: chatBody(), headers: { 'x-worker-instance-id': '2', 'X-#': '1' } }],
  ['wishes that weigh nothing', { body: chatBody({ nvext: { routing_constraints: { preferred_taints: { '#': 'much' } } } }) }], // biome-ignore format: short
  ['a taint that nobody has', { body: chatBody({ nvext: { routing_constraints: { required_taints: ['#'] } } }) }],
  ['a worker id that is none', { body: chatBody({ nvext: { decode_worker_id: '#' } }) }],
  ['an unknown model', { body: '{"model":"#","messages":[]}' }],
  ['no model', { body: '{"#":1}' }],
  ['no JSON inside', { body: '{"model":"m","messages":[{"role":"#",}]}' }],
  ['a control character inside', { body: '{"model":"m","messages":[{"role":"#\u0001"}]}' }],
  ['a number that is none', { body: '{"model":"m","n":01,"#":1}' }],
  ['several answers', { path: '/v1/completions', body: '{"model":"m","prompt":["#","a"],"n":2,"stream":false}' }],
  ['token ids', { path: '/v1/completions', body: '{"model":"m","prompt":[1,2,3],"#":0}' }],
  ['headers that come twice', { body: chatBody(), headers: { 'x-#': ['1', '2'], accept: ['a/b', 'c/d'], 'user-agent': '#' } }], // biome-ignore format: short
  ['a key', { body: chatBody(), headers: { authorization: 'Bearer #', traceparent: '00-#', 'x-#': '#' } }],
  ['many equal fields', { body: `{${plain},"#":1,${listOf(300, () => '"a":1')}}` }],
  ['many equal fields of one that is edited', { body: `{${plain},"#":1,"nvext":{},${listOf(300, () => '"a":1')}}` }],
  ['many fields', { body: `{${plain},"#":1,${listOf(300, (at) => `"${at}":1`)}}` }],
  ['what steers, twice', { body: `{${plain},"#":1,${stops},${stops}}` }],
  ['a long number', { body: `{${plain},"#":1,"seed":1${'2'.repeat(5000)}}` }],
  ['a long fraction', { body: `{${plain},"#":1,"max_tokens":0.1${'2'.repeat(5000)}}` }],
  ['a long name', { body: `{${plain},"#":1,"${'n'.repeat(4095)}":1}` }],
  ['a long name inside', { body: `{${plain},"#":1,"a":{"${'n'.repeat(4095)}":1}}` }],
  ['a name that is not too long', { body: `{${plain},"#":1,"${'n'.repeat(4094)}":1}` }],
  ['deep', { body: `{${plain},"#":${'['.repeat(127)}${']'.repeat(127)}}` }],
  ['too deep', { body: `{${plain},"#":${'['.repeat(128)}${']'.repeat(128)}}` }],
  ['too deep in what comes again', { body: `{${plain},"#":${'['.repeat(128)}${']'.repeat(128)},"#":1}` }],
  ['too deep, and no JSON', { body: `{${plain},"#":${'['.repeat(128)}1.${']'.repeat(128)}}` }],
  ['many fields, and no JSON', { body: `{${plain},"#":1,${listOf(300, () => '"a":1')},}` }],
  ['names that are no JSON', { body: `{${plain},"\\x#":1}` }],
  ['a list', { body: `[{${plain},"#":1}]` }],
  ['a text', { body: '"#"' }],
  ['no object behind a mark', { body: '\ufeff ["#"]' }],
  ['names like numbers', { body: `{"7":"#","z#":2,${plain},"0":3}` }],
  ['prototypes', { body: `{${plain},"__proto__":{"stream":true,"#":1},"sampling_params":{"__proto__":{"n":3}}}` }],
  ['names with escapes', { body: '{"\\u006dodel":"m","messages":[],"#":"\\ud800","\\udfff":1,"str\\u0065am":true}' }],
  ['nothing where objects are expected', { body: `{${plain},"#":null,"stream_options":null,"nvext":null,"sampling_params":null,"vllm_xargs":null}` }], // biome-ignore format: short
  ['texts where objects are expected', { body: `{${plain},"stream_options":"#","sampling_params":"#","vllm_xargs":"#","stream":"#","n":"#"}` }], // biome-ignore format: short
  ['lists where objects are expected', { body: `{${plain},"stream":true,"stream_options":["#"],"sampling_params":["#"],"vllm_xargs":["#"]}` }], // biome-ignore format: short
  ['a model that is an object', { body: '{"model":{"#":1}}' }],
  ['numbers', { body: `{${plain},"#":-0,"n":-0,"max_tokens":1e999,"best_of":1.0}` }],
  ['seconds that are an object', { body: `{${plain},"nvext":{"agent_hints":{"latency_sensitivity":{"#":1}}}}` }],
  ['nvext twice', { body: `{${plain},"nvext":{"#":1},"nvext":{"backend_instance_id":7}}` }],
  [
    'tools',
    { body: `{${plain},"tools":[null,1,"#",[],{"function":"#"},{"function":{"name":"${'n'.repeat(129)}","#":1}}]}` },
  ],
  ['a turn of an agent', { body: chatBody(), headers: { 'x-codex-turn-metadata': '{"thread_id":"t","#":["#"]}' } }],
]

it.each(['', 'dynamo'] as const)('every request means the same, strict: %j', async (strict) => {
  const metrics = createMetrics()
  const gateway = { metrics, usageSampleEvery: 1, ...(strict && { strict }) }
  const house = await open({ engines: 1, gateway })
  await send(house, written({ body: chatBody({ stream: true }) }, fresh())) // shows that it does not tell its usage unasked
  const seenOf = (word: string): string => {
    const seen = house.engines[0]!.seen.splice(0).map(({ text, headers }) => JSON.stringify([text, headers]))
    return seen
      .join()
      .replaceAll(word, '#')
      .replaceAll(/"content-length":"\d+"/g, '')
  }
  house.engines[0]!.seen.length = 0
  for (const [says, sent] of requests) {
    const outcomes: string[] = []
    for (const isUsedUp of [false, true]) {
      const word = fresh()
      if (isUsedUp) useUp()
      const answer = await send(house, written(sent, word))
      outcomes.push(`${answer.replaceAll(word, '#')} ${seenOf(word)}`)
      KeptTable.ofProcess.collected()
    }
    expect(outcomes[1], says).toBe(outcomes[0])
    expect(outcomes[0], says).not.toMatch(/^500/)
  }
  const shown = metrics.registry.text().match(/warmroute_unkept_requests_total\{part="\w+"\} \d+/g)
  expect(shown).toHaveLength(2)
})

it('what is read in the other way is counted, heads and bodies', async () => {
  const metrics = createMetrics()
  const house = await open({ engines: 1, gateway: { metrics } })
  const countOf = (part: string): number => {
    metrics.registry.text()
    return metrics.unkeptRequests.with({ part }).value
  }
  await send(house, written({ body: chatBody() }, fresh()))
  expect([countOf('head'), countOf('body')]).toEqual([0, 0])
  useUp()
  await send(house, written({ body: chatBody({ stop: '#' }) }, fresh()))
  expect([countOf('head'), countOf('body')]).toEqual([0, 1])
  await send(house, written({ body: chatBody(), headers: { 'x-#': '1' } }, fresh()))
  expect([countOf('head'), countOf('body')]).toEqual([1, 1])
  KeptTable.ofProcess.collected()
  const many = Object.fromEntries(Array.from({ length: 17 }, () => [`x-${fresh()}`, '1']))
  await send(house, { path: '/v1/chat/completions', body: chatBody(), headers: many })
  expect([countOf('head'), countOf('body')]).toEqual([2, 1])
  await send(house, written({ body: chatBody({ stop: Array.from({ length: 65 }, fresh) }) }, fresh()))
  expect([countOf('head'), countOf('body')]).toEqual([2, 2])
})
