/**
 * How the KV of a prefill worker reaches a decode worker, by connector: who speaks first, and for how long the prefill side
 * keeps what it computed. Only `nixl` was run against real engines; `nixl_push`, `mooncake` and `shared_cache` follow their
 * documented bodies, `sglang` its documented bodies and the simulator.
 */
import type { EngineKind } from '../engine-facts.js'

export const connectors = ['nixl', 'nixl_push', 'mooncake', 'shared_cache', 'sglang'] as const

export type Connector = (typeof connectors)[number]

/** What a prefill worker says of its half of the transfer, or its owner says for it. */
export interface TransferFacts {
  readonly connector?: Connector | undefined
  /** What the engine calls a connector that we do not speak, unless its owner names one that we do. */
  readonly unspoken?: string | undefined
  /** As decode workers reach it; the host of its address unless told. */
  readonly host?: string | undefined
  /** SGLang's and Mooncake's bootstrap server, NIXL's side channel (push). */
  readonly port?: number | undefined
  /** Fixed id of the engine, one per rank (push and Mooncake). */
  readonly engineIds?: readonly string[] | undefined
  readonly tpSize?: number | undefined
  readonly ppSize?: number | undefined
  /** How long it holds KV that nobody has read; the version's own unless told. */
  readonly leaseMs?: number | undefined
}

export function connectorOf(engine: EngineKind, facts: TransferFacts | undefined): Connector | undefined {
  if (facts?.connector) return facts.connector
  return engine === 'vllm' ? 'nixl' : engine === 'sglang' ? 'sglang' : undefined
}

/** True: the prefill is answered before the decode is sent. False: both are sent at once and find each other. */
export function isSequential(connector: Connector): boolean {
  return connector === 'nixl' || connector === 'shared_cache'
}

/**
 * How long a prefill worker keeps KV for a reader. NIXL's lease became 30 s with vLLM 0.22; an unknown version gets the
 * shortest, since a decode that comes late is answered with wrong text. Undefined: nothing is held for anybody.
 */
export function leaseMsOf(connector: Connector, version: string | undefined): number | undefined {
  if (connector !== 'nixl') return undefined
  const [, major, minor, patch = '0'] = /^(\d+)\.(\d+)(?:\.(\d+))?/.exec(version ?? '') ?? []
  if (major !== '0' || minor === undefined || Number(minor) >= 22) return 30_000
  return Number(minor) < 11 || (minor === '11' && patch === '0') ? 120_000 : 480_000
}

/** A decode must be sent this long before the lease ends: the request still has to travel, and the lease began before we heard of it. */
export function leaseMarginMs(leaseMs: number): number {
  return leaseMs / 6
}

/** Routes whose requests a pair can serve; on others the fields of a transfer are not read. */
export function canPair(connector: Connector, path: string): boolean {
  return pairedPaths[connector === 'sglang' ? 'sglang' : 'vllm'].has(path)
}

const pairedPaths = {
  vllm: new Set(['/v1/chat/completions', '/v1/completions']),
  sglang: new Set(['/v1/chat/completions', '/v1/completions', '/generate']),
}

/** A decode-only server of SGLang refuses a prompt without a room; vLLM's computes it itself. */
export function canDecodeAlone(engine: EngineKind): boolean {
  return engine !== 'sglang'
}
