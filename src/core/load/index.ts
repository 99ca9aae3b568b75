/** Who is busy: load reports and thresholds in, the set of busy workers out. */
export { LoadMonitor } from './load-monitor.js'
export type { DepartedWorker, LoadMonitorOptions, WorkerCapacity } from './load-monitor.js'
export type { ActiveLoad } from './rank-load.js'
export { isConfigured } from './thresholds.js'
export type { LoadThresholds, MonitorVersion } from './thresholds.js'
