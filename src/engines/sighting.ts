/**
 * Looking at the same address again and again. The first look asks everything; while the engine's own figures show that it is
 * the same process with the same models, later ones ask for those alone, as all the rest is said once, when it is started.
 */
import { detectEngine } from './detect.js'
import type { EngineFacts, EngineKind } from './engine-facts.js'
import { parseRecord } from './json.js'
import type { Probe, ProbeReply } from './probe.js'
import { sglangWitness } from './sglang/facts.js'
import { fromModels, vllmWitness } from './vllm/facts.js'

interface Witness {
  readonly path: string
  /** Undefined: it does not tell one process from another. */
  readonly read: (text: string, host: string) => string | undefined
}

const witnesses: Readonly<Partial<Record<EngineKind, Witness>>> = {
  vllm: { path: '/metrics', read: vllmWitness },
  sglang: { path: '/server_info', read: sglangWitness },
}

const modelsPath = '/v1/models'

export class Sighting {
  #witness: Witness | undefined
  /** What the last whole look said of the process, and of its models. */
  #process: string | undefined
  #models: string | undefined

  /**
   * It is what the last whole look saw; `models` is its answer of this moment. A witness that does not answer in time says nothing, and so
   * nothing new.
   */
  async isSame(probe: Probe, models: ProbeReply): Promise<boolean> {
    if (!this.#witness || modelsText(models) !== this.#models) return false
    const reply = await probe.get(this.#witness.path)
    if (!reply) return true
    return reply.status === 200 && this.#witness.read(reply.text, probe.host) === this.#process
  }

  /** Asks everything but what `models` answers, each question once. */
  async detect(probe: Probe, models: ProbeReply): Promise<EngineFacts> {
    const replies = new Map([[modelsPath, models]])
    let isWhole = true
    const get = async (path: string): Promise<ProbeReply | undefined> => {
      const known = replies.get(path)
      if (known) return known
      const reply = await probe.get(path)
      if (reply) replies.set(path, reply)
      isWhole &&= reply !== undefined && !mayPass(reply.status)
      return reply
    }
    const facts = await detectEngine({ host: probe.host, get })
    const witness = witnesses[facts.kind.value]
    const reply = witness && replies.get(witness.path)
    const isWitnessed = isWhole && facts.models !== undefined && reply?.status === 200 // without models it is nobody's worker
    this.#process = isWitnessed ? witness!.read(reply.text, probe.host) : undefined
    this.#witness = this.#process === undefined ? undefined : witness
    this.#models = modelsText(models)
    return facts
  }
}

/** Without the time of the answer, which engines put into it. */
function modelsText({ text }: ProbeReply): string {
  return JSON.stringify(fromModels(parseRecord(text)))
}

/** An answer that may be another one a moment later, so the question stays open. */
function mayPass(status: number): boolean {
  return status >= 500 || status === 408 || status === 429
}
