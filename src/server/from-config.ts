/** From the options of the file to the options of a gateway. Reads no file: certificate and key come as texts. */
import type { LoadThresholds } from '../core/load/index.js'
import { commandLineThresholds } from '../core/load/index.js'
import type { CompatMode } from '../core/protocol/index.js'
import type { ServerConfig } from '../config/index.js'
import type { GatewayOptions, ModelSpec } from './options.js'

export function gatewayOptionsOf(
  config: ServerConfig,
  tls?: { readonly cert: string; readonly key: string },
): Omit<GatewayOptions, 'models'> {
  return {
    listen: { host: config.host, port: config.port, tls },
    adminListen: config.adminPort === undefined ? undefined : { host: config.adminHost, port: config.adminPort, tls },
    apiKeyHashes: config.apiKeyHashes,
    adminKeyHashes: config.adminKeyHashes,
    limits: {
      bodyBytesMax: config.bodyLimitMb * 1024 * 1024,
      bodiesBytesMax: config.bodyMemoryMb * 1024 * 1024,
      requestsMax: config.requestsMax,
      editedBytesMax: config.editedAnswerLimitMb * 1024 * 1024,
      storedResponsesMax: config.storedResponsesMax,
    },
    deadlines: {
      bodyMs: config.bodyTimeoutMs,
      connectMs: config.connectTimeoutMs,
      totalMs: config.totalTimeoutMs,
      noProgressMs: config.noProgressTimeoutMs,
      idleMs: config.idleTimeoutMs,
      prefillMs: config.prefillTimeoutMs,
      transferMs: config.transferTimeoutMs,
      transferTokenMs: config.transferTokenTimeoutMs,
      graceMs: config.shutdownGraceSecs * 1000,
      drainMs: config.gracefulShutdownTimeoutSecs * 1000,
    },
    health: {
      intervalMs: config.healthIntervalMs,
      metricsMs: config.metricsIntervalMs,
      quarantineMs: [config.quarantineMs, Math.max(config.quarantineMs, 30_000)],
    },
    strict: config.strict,
    overloadStatus: config.overloadStatus,
    keepAliveMs: config.keepAliveMs,
    usageSampleEvery: config.usageSampleEvery,
    allowedEngineFields: config.allowedEngineFields,
    showsWorker: config.showsWorker,
    metricsCompat: config.metricsCompat,
    metricsPrefix: config.metricsPrefix,
    hasAdminRoutes: !config.disableAdminApi,
  }
}

/** How the model judges load and keeps sessions. */
export function modelRulesOf(
  config: ServerConfig,
  model: string,
  compat: CompatMode,
): Pick<ModelSpec, 'thresholds' | 'monitor' | 'sessionAffinityTtlSecs'> {
  const { monitors, sessionAffinityTtlSecs } = config
  const monitor = (Object.hasOwn(monitors, model) ? monitors[model] : undefined) ?? config.monitor
  const usual = compat === 'dynamo-1.2' && monitor === '1.1' ? commandLineThresholds : {}
  return { thresholds: thresholdsOf(config, usual), monitor, sessionAffinityTtlSecs }
}

/** `usual` where nothing is said; `none` is said. */
function thresholdsOf(config: ServerConfig, usual: LoadThresholds): LoadThresholds {
  const { activeDecodeBlocksThreshold, activePrefillTokensThreshold, activePrefillTokensThresholdFrac } = config
  const said = { activeDecodeBlocksThreshold, activePrefillTokensThreshold, activePrefillTokensThresholdFrac }
  const limits = Object.entries(said).map(([name, value]) => [name, value ?? usual[name as keyof LoadThresholds]])
  return Object.fromEntries(limits.filter(([, value]) => typeof value === 'number'))
}
