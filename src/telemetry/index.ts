/** Metrics: one catalogue, typed families, the text that a scrape reads; log lines without secrets; the way to traces. */
export { catalogue, idle, leftOut } from './catalogue.js'
export type { MetricKey, MetricRow } from './catalogue.js'
export { LabelText } from './families.js'
export type { Counter, Gauge, Histogram, Labels } from './families.js'
export { createLog, hiddenText, secretNames } from './log.js'
export type { LogLevel } from './log.js'
export { createMetrics } from './metrics.js'
export type { Metrics, MetricsOptions } from './metrics.js'
export { bucketsFromEnv } from './operator-names.js'
export type { MetricBuckets } from './operator-names.js'
export { expositionType, Registry } from './registry.js'
export { installedTracer } from './tracing.js'
export { unitOf } from './unit.js'
export type { Unit } from './unit.js'
export {
  instanceId,
  removeWorkerSeries,
  RouterMetrics,
  routerMetricsOf,
  unsetRankLabel,
  workerLabels,
} from './router-metrics.js'
export type { RoutingTimes, WorkerType } from './router-metrics.js'
