/** Which of a gateway's routes an engine has, and what it calls them. Engines we know less of are asked by any name. */
import type { EngineKind } from './engine-facts.js'

/** Only what differs; `none` where nothing there does the same. Seen on vLLM 0.32.0 and SGLang 0.5.23. */
const otherNames: Readonly<Partial<Record<EngineKind, Readonly<Record<string, string>>>>> = {
  vllm: { '/generate': 'none', '/v1/pooling': '/pooling', '/v1/classify': '/classify' },
  // Its `/classify` is another route than its `/v1/classify`; both are there.
  sglang: { '/pooling': 'none', '/v1/pooling': 'none', '/rerank': '/v1/rerank', '/score': '/v1/score' },
}

/** The path at the engine, or undefined where it has no such route. */
export function engineRoute(engine: EngineKind, path: string): string | undefined {
  const name = otherNames[engine]?.[path] ?? path
  return name === 'none' ? undefined : name
}
