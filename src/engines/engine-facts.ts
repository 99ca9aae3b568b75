/** What a router must know of an engine before it sends the first request; each fact with where it was read. */

import type { OtherTemplates } from './sglang/other-templates.js'
import type { Connector } from './transfer/connector.js'

export const engineKinds = ['vllm', 'sglang', 'trtllm', 'llamacpp', 'tgi', 'lmdeploy', 'ollama', 'unknown'] as const

export type EngineKind = (typeof engineKinds)[number]

export interface Fact<Value> {
  readonly value: Value
  /** The request that said so, or the rule that it was concluded by. */
  readonly source: string
}

/** One rank's event stream. */
export interface EventSourceFact {
  readonly dpRank: number
  readonly endpoint: string
  readonly replayEndpoint: string | undefined
  readonly topic: string
  /** Batches that a replay can reach back. */
  readonly bufferSteps: number | undefined
}

export interface ServedModel {
  readonly name: string
  /** Path or hub id: where the tokenizer comes from. */
  readonly root: string | undefined
  readonly contextTokens: number | undefined
}

export interface AdapterFact {
  readonly name: string
  readonly base: string
}

export interface EngineFacts {
  readonly kind: Fact<EngineKind>
  readonly version?: Fact<string>
  readonly models?: Fact<readonly ServedModel[]>
  readonly adapters?: Fact<readonly AdapterFact[]>
  readonly tokenizer?: Fact<string>
  /** Tokens per block. The first stored event is the better witness. */
  readonly blockSize?: Fact<number>
  /** Blocks per rank that can hold something. */
  readonly usableBlocks?: Fact<number>
  readonly dpRanks?: Fact<number>
  readonly hasPrefixCache?: Fact<boolean>
  readonly isEagle?: Fact<boolean>
  readonly batchTokensMax?: Fact<number>
  readonly runningRequestsMax?: Fact<number>
  /** `prefill`, `decode`, or absent where the engine does both or does not say. */
  readonly role?: Fact<'prefill' | 'decode'>
  /** Where the two halves of an SGLang pair meet. */
  readonly bootstrapPort?: Fact<number>
  readonly connector?: Fact<Connector>
  /** The engine's own name of a connector that we do not speak. */
  readonly unspokenConnector?: Fact<string>
  /** Empty: events are off. Absent: the engine does not say, ask its sockets. */
  readonly eventSources?: Fact<readonly EventSourceFact[]>
  /** False: the model pools, and answers with numbers. A request for text then ends an SGLang. */
  readonly generates?: Fact<boolean>
  /** Of an SGLang, which writes thoughts as this parser reads them; null: it has none. */
  readonly reasoningParser?: Fact<string | null>
  /** Of an SGLang: which prompts it does not build by the model's template. */
  readonly otherTemplates?: Fact<OtherTemplates>
  /** Of an SGLang that was told whether to take media. */
  readonly takesMedia?: Fact<boolean>
  /** Differs between incarnations of the process. */
  readonly incarnation?: Fact<string>
}

export function fact<Value>(value: Value, source: string): Fact<Value> {
  return { value, source }
}

/** `tcp://*:5557` as seen from here: the host that answered HTTP. */
export function reachableEndpoint(endpoint: string, httpHost: string): string {
  return endpoint.replace(/^tcp:\/\/(\*|0\.0\.0\.0|\[::\]|::)(?=:)/, `tcp://${httpHost}`)
}

/** SGLang's radix tree is keyed by pairs of tokens while it speculates with EAGLE or MTP; vLLM's blocks are not. */
export function namesPairs({ kind, isEagle }: EngineFacts): boolean {
  return kind.value === 'sglang' && isEagle?.value === true
}
