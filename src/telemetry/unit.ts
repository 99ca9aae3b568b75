/** What the numbers of a metric are: told by its name, as everywhere in Prometheus, and by a list where the name does not say it. */
import type { MetricKey } from './catalogue.js'
import { catalogue } from './catalogue.js'

export type Unit = 'seconds' | 'milliseconds' | 'bytes' | 'tokens' | 'blocks' | 'ratio' | 'flag' | 'count'

const endings: readonly (readonly [ending: RegExp, unit: Unit])[] = [
  [/_seconds$/, 'seconds'],
  [/_ms$/, 'milliseconds'],
  [/_bytes$/, 'bytes'],
  [/_tokens$/, 'tokens'],
  [/_blocks$/, 'blocks'],
  [/_(ratio|rate)$/, 'ratio'],
]

const unnamed: Readonly<Partial<Record<MetricKey, Unit>>> = {
  modelContextLength: 'tokens',
  modelKvCacheBlockSize: 'tokens',
  modelReady: 'flag',
  routerOverlapLost: 'blocks',
  routerWorkerRegistered: 'flag',
  workerMode: 'flag',
  workerAvailable: 'flag',
  tokenSource: 'flag',
  eventState: 'flag',
}

/** `flag` is 1 or 0; `count` counts what the sentence of the metric names. */
export function unitOf(key: MetricKey): Unit {
  const name = catalogue[key].name.replace(/_total$/, '')
  return unnamed[key] ?? endings.find(([ending]) => ending.test(name))?.[1] ?? 'count'
}
