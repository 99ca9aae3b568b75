/** One worker, examined: what it says of itself, its sockets, the self-test of every rank, and its tokens. */
import { rulesOf } from '../assemble/prompt-rules.js'
import type { TokenPlaces } from '../assemble/token-places.js'
import { placesFor } from '../assemble/token-places.js'
import type { EngineFacts } from '../../engines/index.js'
import { detectEngine, HttpProbe, probeSocketType, readSglangLoads, readVllmLoad } from '../../engines/index.js'
import { TokenService } from '../../tokens/index.js'
import { eventFlags } from '../assemble/worker-mode.js'
import type { WorkerAddress } from '../assemble/worker-keeper.js'
import { Ear } from './ear.js'
import type { Examination, Finding } from './finding.js'
import { worst } from './finding.js'
import type { Patient } from './patient.js'
import { newPromptCheck, selfTest } from './self-test.js'
import { tokenParity } from './token-parity.js'

export interface ExamineOptions {
  readonly tokenPlaces?: TokenPlaces | undefined
  readonly signal: AbortSignal
}

const followMs = 3_000
const blockSizeUnknown = 16

export async function examine(address: WorkerAddress, options: ExamineOptions): Promise<Examination> {
  const { url, apiKey } = address
  const probe = new HttpProbe({ baseUrl: url, apiKey, signal: options.signal })
  const models = await probe.get('/v1/models')
  if (models?.status !== 200) return report(url, undefined, [unreachable(models?.status, probe.trouble)])
  const facts = await detectEngine(probe)
  const model = facts.models?.value[0]?.name
  const findings: Finding[] = judgeFacts(facts)
  if (model === undefined) return report(url, facts, findings)
  if (facts.generates?.value === false) return report(url, facts, [...findings, pools(facts.generates.source)])
  const patient: Patient = { url, apiKey, facts, model, ranks: facts.dpRanks?.value ?? 1, signal: options.signal }
  findings.push(...(await judgeSockets(facts)), await judgeLoad(probe, facts))
  findings.push(...(await listenAndTest(patient, options)))
  return report(url, facts, findings)
}

function report(url: string, facts: EngineFacts | undefined, findings: readonly Finding[]): Examination {
  const engine = facts && [facts.kind.value, facts.version?.value].filter(Boolean).join(' ')
  const verdict = worst(findings.map((it) => it.verdict))
  return { url, engine, model: facts?.models?.value[0]?.name, verdict, findings }
}

function unreachable(status: number | undefined, trouble = 'nothing answers there'): Finding {
  const check = 'answers'
  if (status === 401 || status === 403)
    return { check, verdict: 'fail', reason: `it wants a key (status ${status})`, fix: '--engine-api-key <key>' }
  const reason = status === undefined ? trouble : `/v1/models answered ${status}`
  return { check, verdict: 'fail', reason, fix: 'start the engine, or correct the address' }
}

/** Nothing more is asked of it: a request for text ends an SGLang that pools. */
function pools(source: string): Finding {
  const reason = `its model answers with numbers, by ${source}: it was sent no prompt, and its events were not tried`
  return { check: 'task', verdict: 'warn', reason }
}

function judgeFacts(facts: EngineFacts): Finding[] {
  const { kind, version, models, hasPrefixCache, blockSize, eventSources, incarnation } = facts
  const isKnown = kind.value === 'vllm' || kind.value === 'sglang'
  const events = eventSources?.value
  const findings: Finding[] = [
    {
      check: 'engine',
      verdict: isKnown ? 'pass' : 'warn',
      reason: `${kind.value} ${version?.value ?? '(version unknown)'}, by ${kind.source}`,
      fix: isKnown ? undefined : 'exact routing knows vLLM and SGLang; others are balanced by our own predictions',
    },
    models && models.value.length > 0
      ? { check: 'model', verdict: 'pass', reason: models.value.map((it) => it.name).join(', ') }
      : { check: 'model', verdict: 'fail', reason: 'it serves no model' },
  ]
  if (hasPrefixCache?.value === false)
    findings.push({
      check: 'prefix cache',
      verdict: 'fail',
      reason: 'switched off: there is nothing to route to',
      fix: kind.value === 'sglang' ? 'drop --disable-radix-cache' : '--enable-prefix-caching',
    })
  findings.push(
    blockSize
      ? { check: 'block size', verdict: 'pass', reason: `${blockSize.value} tokens, by ${blockSize.source}` }
      : { check: 'block size', verdict: 'warn', reason: `not said; ${blockSizeUnknown} is assumed` },
    events && events.length > 0
      ? { check: 'events', verdict: 'pass', reason: `${events.length} stream(s), by ${eventSources.source}` }
      : {
          check: 'events',
          verdict: 'fail',
          reason: events ? 'switched off: routing stays approximate' : 'it does not say where they are',
          fix: eventFlags[kind.value],
        },
  )
  if (!incarnation)
    findings.push({
      check: 'restarts',
      verdict: 'warn',
      reason: 'it does not say when it was started; a restart is known by its events alone',
      fix: kind.value === 'sglang' ? '--enable-metrics' : undefined,
    })
  return findings
}

async function judgeSockets(facts: EngineFacts): Promise<Finding[]> {
  const findings: Finding[] = []
  for (const { dpRank: rank, endpoint, replayEndpoint } of facts.eventSources?.value ?? []) {
    const asked = [{ check: 'event socket', at: endpoint, ours: 'SUB', wanted: 'PUB' } as const]
    const also =
      replayEndpoint && ({ check: 'replay socket', at: replayEndpoint, ours: 'DEALER', wanted: 'ROUTER' } as const)
    for (const { check, at, ours, wanted } of also ? [...asked, also] : asked) {
      const type = await probeSocketType(at, ours)
      findings.push(
        type === wanted
          ? { check, rank, verdict: 'pass', reason: `${at} greets as ${type}` }
          : {
              check,
              rank,
              verdict: 'fail',
              reason: type === undefined ? `${at} cannot be reached` : `${at} is a ${type} socket, not ${wanted}`,
              fix: 'open the port, and let the engine bind it: tcp://*:PORT',
            },
      )
    }
  }
  return findings
}

async function judgeLoad(probe: HttpProbe, facts: EngineFacts): Promise<Finding> {
  const check = 'load figures'
  const isSglang = facts.kind.value === 'sglang'
  const path = isSglang ? '/v1/loads?include=core' : '/metrics'
  const reply = await probe.get(path)
  const loads = reply?.status === 200 ? (isSglang ? readSglangLoads(reply.text) : readVllmLoad(reply.text)) : []
  if (loads.length > 0) return { check, verdict: 'pass', reason: `${path} tells of ${loads.length} rank(s)` }
  const fix = isSglang ? '--enable-metrics' : undefined
  return { check, verdict: 'warn', reason: `${path} tells nothing: busy thresholds see our own bookings only`, fix }
}

async function listenAndTest(patient: Patient, options: ExamineOptions): Promise<Finding[]> {
  const { facts, model, url, apiKey, signal } = patient
  const sources = facts.eventSources?.value ?? []
  const blockSize = facts.blockSize?.value ?? blockSizeUnknown
  const kind = facts.kind.value
  const service = new TokenService({ threads: 1 })
  const ear = sources.length > 0 ? new Ear(sources, blockSize, false) : undefined
  try {
    const findings: Finding[] = []
    if (ear && !(await ear.ready(followMs, signal)))
      findings.push({ check: 'event stream', verdict: 'fail', reason: 'could not be followed', fix: eventFlags[kind] })
    for (let rank = 0; rank < patient.ranks; rank++)
      findings.push(...(await selfTest({ patient, rank, blockSize, sources, ear })))
    const status = await service.setModel(
      model,
      {
        ...placesFor(model, options.tokenPlaces),
        model: facts.tokenizer?.value,
        ...(kind === 'vllm' || kind === 'sglang'
          ? {
              rules: rulesOf([facts], kind),
              engine: { url, dialect: kind, ...(apiKey ? { headers: { authorization: `Bearer ${apiKey}` } } : {}) },
            }
          : {}),
      },
      signal,
    )
    const isSilent = findings.some((it) => it.check === newPromptCheck && it.verdict === 'fail')
    findings.push(...(await tokenParity(patient, service, status, isSilent ? undefined : ear, blockSize)))
    const unreadable = ear?.unreadable() ?? []
    if (unreadable.length > 0)
      findings.push({
        check: 'event format',
        verdict: 'fail',
        reason: `batches could not be read: ${unreadable.join(', ')}`,
        fix: 'report the engine version',
      })
    return findings
  } finally {
    await ear?.close()
    await service.close()
  }
}
