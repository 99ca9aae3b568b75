/** What `serve` makes of its settings: everything that it refuses, and that `config --check` refuses with it. */
import { readFile } from 'node:fs/promises'
import { isIPv6 } from 'node:net'
import { createSecureContext } from 'node:tls'
import type { ServerConfig } from '../config/index.js'
import { engineIdentity, readPolicyConfig } from '../config/index.js'
import type { PrefillCoefficients } from '../core/load/index.js'
import { WarmrouteError } from '../core/protocol/index.js'
import { gatewayOptionsOf, hashKey, modelRulesOf, roleOfLabels } from '../server/index.js'
import { parseEngineProfile, prefillCoefficientsOf, timingProfiles } from '../sim/index.js'
import { bucketsFromEnv } from '../telemetry/index.js'
import type { AssemblyOptions } from './assemble/assembly-options.js'
import { prefillEstimatorOf } from './assemble/prefill-times.js'
import { proveTokenizers, tokenPlacesOf } from './assemble/token-places.js'
import type { Settings } from './settings.js'
import { listenHost, readWorker } from './settings.js'

/** Throws `WR_INVALID_CONFIG` for whatever would keep `serve` from starting, but for engines, ports and the snapshot's folder. */
export async function proveSettings(
  settings: Settings,
  env: Readonly<Record<string, string | undefined>> = process.env,
): Promise<AssemblyOptions> {
  const workers = workersOf(settings)
  refuseTwins(workers)
  refuseOurselves(workers, settings)
  for (const { labels } of settings.values.serve.workers) roleOfLabels(labels) // a mistake in one is told now
  return { ...(await assemblyOptions(settings, env)), workers }
}

function workersOf({ values: { serve: own }, rest }: Settings): AssemblyOptions['workers'] {
  const addresses = rest.map((word) => ({ ...readWorker(word), apiKey: own.engineApiKey }))
  return [...own.workers.map((it) => ({ ...it, apiKey: it.apiKey ?? own.engineApiKey })), ...addresses]
}

async function assemblyOptions(
  { values, origins }: Settings,
  env: Readonly<Record<string, string | undefined>>,
): Promise<Omit<AssemblyOptions, 'workers'>> {
  const { routing: config, server, serve: own } = values
  const { routerPolicyConfig } = config
  const gateway = gatewayOptionsOf(server, await readTls(server))
  const tokenPlaces = tokenPlacesOf(own, env)
  await proveTokenizers(tokenPlaces)
  return {
    config,
    policy: own.routerMode,
    prefillLoadEstimator: prefillEstimatorOf(own.prefillTimes),
    policies: routerPolicyConfig === undefined ? undefined : await readPolicyConfig(routerPolicyConfig),
    rules: (model) => modelRulesOf(server, model, config.compat),
    enforceDisagg: own.enforceDisagg,
    prefillFallback: own.prefillFallback,
    tokenPlaces,
    trtllmPollMs: own.trtllmPollMs,
    prefillProfile: own.engineProfile === undefined ? undefined : await readPrefillProfile(own.engineProfile),
    decisionLog:
      own.decisionLog === undefined ? undefined : { path: own.decisionLog, bytesMax: own.decisionLogMaxMib * 2 ** 20 },
    gateway: {
      ...gateway,
      metricsBuckets: bucketsFromEnv(env),
      listen: { ...gateway.listen, host: listenHost({ values, origins }) },
      apiKeyHashes: [...server.apiKeyHashes, ...own.apiKeys.map(hashKey)],
      adminKeyHashes: [...server.adminKeyHashes, ...own.adminKeys.map(hashKey)],
    },
  }
}

/** One engine under two names would be two workers to the router, each with half of its load and one cache. */
function refuseTwins(workers: readonly { readonly url: string }[]): void {
  const seen = new Map<string, string>()
  for (const { url } of workers) {
    const before = seen.get(engineIdentity(url))
    if (before !== undefined)
      throw new WarmrouteError('WR_INVALID_CONFIG', { reason: `one engine is named twice: ${before} and ${url}` })
    seen.set(engineIdentity(url), url)
  }
}

/** A router among its own workers sends itself what nobody else can take, over and over. */
function refuseOurselves(workers: readonly { readonly url: string }[], settings: Settings): void {
  const { port, tlsCertPath } = settings.values.server
  const host = listenHost(settings)
  const ours = `${tlsCertPath === undefined ? 'http' : 'https'}://${isIPv6(host) ? `[${host}]` : host}:${port}`
  if (!URL.canParse(ours)) return // listening there says what is wrong with it
  const own = workers.find(({ url }) => engineIdentity(url) === engineIdentity(ours))
  if (!own) return
  const reason = `${own.url} is where this router would listen itself: choose another place for it with --port`
  throw new WarmrouteError('WR_INVALID_CONFIG', { reason })
}

async function readTls({ tlsCertPath, tlsKeyPath }: ServerConfig): Promise<{ cert: string; key: string } | undefined> {
  if (tlsCertPath === undefined || tlsKeyPath === undefined) return undefined
  try {
    const tls = { cert: await readFile(tlsCertPath, 'utf8'), key: await readFile(tlsKeyPath, 'utf8') }
    createSecureContext(tls) // refuses what is no PEM, and a key of another certificate
    return tls
  } catch (cause) {
    const reason = `tls_cert_path ${tlsCertPath} and tls_key_path ${tlsKeyPath} cannot be used: ${(cause as Error).message}`
    throw new WarmrouteError('WR_INVALID_CONFIG', { reason }, { cause })
  }
}

/** Throws `WR_INVALID_CONFIG`: a router that starts from a wrong file would be slow for reasons that nobody sees. */
async function readPrefillProfile(path: string): Promise<PrefillCoefficients> {
  try {
    return prefillCoefficientsOf(timingProfiles[path] ?? parseEngineProfile(await readFile(path, 'utf8'), path))
  } catch (cause) {
    const reason = cause instanceof WarmrouteError ? String(cause.details['reason']) : (cause as Error).message
    throw new WarmrouteError('WR_INVALID_CONFIG', { reason: `engine_profile: ${reason}` }, { cause })
  }
}
