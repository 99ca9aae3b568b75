import { expect, it } from 'vitest'
import { readText } from '../../test/recordings.js'
import type { Probe, ProbeReply } from './probe.js'
import { Sighting } from './sighting.js'

type Replies = Record<string, { status: number; body: string } | undefined>

const recorded = {
  vllm: { ...(JSON.parse(readText('vllm/probes.json')) as Replies), '/metrics': ok(readText('vllm/metrics.txt.gz')) },
  sglang: {
    ...(JSON.parse(readText('sglang/probes.json')) as Replies),
    '/v1/models': ok('{"object":"list","data":[{"id":"tiny","object":"model","owned_by":"sglang"}]}'),
  },
}

function ok(body: string): { status: number; body: string } {
  return { status: 200, body }
}

/** An engine that answers as the recorded one did; a look at it counts its questions, and says whether all was asked anew. */
function watched(kind: keyof typeof recorded) {
  const replies: Replies = { ...recorded[kind] }
  const silent = new Set<string>()
  const sighting = new Sighting()
  let asked: string[] = []
  const probe: Probe = {
    host: '10.0.0.5',
    get(path): Promise<ProbeReply | undefined> {
      asked.push(path)
      const reply = replies[path]
      if (silent.has(path)) return Promise.resolve(undefined)
      return Promise.resolve({ status: reply?.status ?? 404, text: reply?.body ?? '{}' })
    },
  }
  const look = async () => {
    asked = []
    const models = (await probe.get('/v1/models'))!
    if (await sighting.isSame(probe, models)) return { facts: undefined, asked }
    return { facts: await sighting.detect(probe, models), asked }
  }
  const change = (path: string, edit: (body: string) => string): void => {
    const { status, body } = replies[path]!
    const edited = edit(body)
    expect(edited).not.toBe(body)
    replies[path] = { status, body: edited }
  }
  return { look, change, replies, silent }
}

const witness = { vllm: '/metrics', sglang: '/server_info' }
const restarted = {
  vllm: (body: string) => body.replace(/^process_start_time_seconds .*$/m, 'process_start_time_seconds 1.9e+09'),
  sglang: (body: string) => JSON.stringify({ ...(JSON.parse(body) as object), startup_time: 'another' }),
}

it.each(['vllm', 'sglang'] as const)('of a %s everything is asked once, and then two questions do', async (kind) => {
  const { look } = watched(kind)
  const first = await look()
  expect(first.facts?.kind.value).toBe(kind)
  expect(new Set(first.asked).size).toBe(first.asked.length)
  for (let again = 0; again < 3; again++)
    expect(await look()).toEqual({ facts: undefined, asked: ['/v1/models', witness[kind]] })
})

it.each(['vllm', 'sglang'] as const)(
  'a %s that was restarted is asked everything again, and what it says is new',
  async (kind) => {
    const { look, change } = watched(kind)
    const before = (await look()).facts
    await look()
    change(witness[kind], restarted[kind])
    const { facts, asked } = await look()
    expect(facts!.incarnation!.value).not.toBe(before!.incarnation!.value)
    expect(asked.length).toBeGreaterThan(4)
    expect((await look()).facts).toBeUndefined()
  },
)

it('other models, adapters and capacities of the same process are seen', async () => {
  const { look, change } = watched('vllm')
  await look()
  change('/v1/models', (body) => body.replaceAll('"tiny"', '"other"'))
  expect((await look()).facts?.models?.value[0]?.name).toBe('other')
  change('/metrics', (body) => body.replaceAll(/block_size="\d+"/g, 'block_size="48"'))
  expect((await look()).facts?.blockSize?.value).toBe(48)
})

it('a time that differs in every answer is nothing new', async () => {
  const { look, change } = watched('vllm')
  await look()
  change('/v1/models', (body) => body.replace(/"created": ?\d+/, '"created":1'))
  expect((await look()).facts).toBeUndefined()
})

it('figures that come too late say nothing, and figures that are refused are asked for again with everything else', async () => {
  const { look, silent, replies } = watched('vllm')
  await look()
  silent.add('/metrics')
  expect((await look()).facts).toBeUndefined()
  silent.clear()
  replies['/metrics'] = { status: 503, body: '' }
  expect((await look()).facts?.blockSize).toBeUndefined()
})

it.each(['silent', 'failing'] as const)(
  'a question that was %s in the first look is asked until it is answered',
  async (how) => {
    const { look, silent, replies } = watched('vllm')
    const answer = replies['/kv_event_sources']
    if (how === 'silent') silent.add('/kv_event_sources')
    else replies['/kv_event_sources'] = { status: 503, body: '' }
    await look()
    expect((await look()).facts).toBeDefined()
    silent.clear()
    replies['/kv_event_sources'] = answer
    expect((await look()).facts?.eventSources?.source).toBe('/kv_event_sources')
    expect((await look()).facts).toBeUndefined()
  },
)

it('an engine that does not say when it started is asked everything each time', async () => {
  const { look, change } = watched('vllm')
  change('/metrics', (body) => body.replace(/^process_start_time_seconds .*\n/m, ''))
  await look()
  expect((await look()).facts?.kind.value).toBe('vllm')
})
