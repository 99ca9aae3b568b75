/** `warmroute serve`: the router in front of engines, from addresses to a clean end. */
import { access, constants, readFile } from 'node:fs/promises'
import { isIPv6 } from 'node:net'
import { homedir } from 'node:os'
import { dirname, join } from 'node:path'
import { createSecureContext } from 'node:tls'
import { Command } from 'commander'
import type { ServerConfig } from '../config/index.js'
import { engineIdentity, readPolicyConfig } from '../config/index.js'
import type { PrefillCoefficients } from '../core/load/index.js'
import { WarmrouteError } from '../core/protocol/index.js'
import type { GatewayAddress, WorkerMode } from '../server/index.js'
import { gatewayOptionsOf, hashKey, modelRulesOf, roleOfLabels } from '../server/index.js'
import { bucketsFromEnv } from '../telemetry/index.js'
import { parseEngineProfile, prefillCoefficientsOf, timingProfiles } from '../sim/index.js'
import type { AssemblyOptions } from './assemble/assembly-options.js'
import { Assembly } from './assemble/assembly.js'
import { makeFolder } from './assemble/make-folder.js'
import { prefillEstimatorOf } from './assemble/prefill-times.js'
import type { UsualPorts } from './assemble/find-sockets.js'
import { proveTokenizers, tokenPlacesOf } from './assemble/token-places.js'
import type { KeeperTimes } from './assemble/worker-keeper.js'
import { letHeapGrow } from './collector.js'
import { commandLog } from './log.js'
import type { Settings } from './settings.js'
import { listenHost, needsKey, readSettings, readWorker, settingsHelp } from './settings.js'
import { startTable } from './start-table.js'
import { stopSignal } from './stop-signal.js'

/** How long the first table waits for events, so that it shows what holds a moment later. */
const settleMs = 2_000

export interface Served {
  readonly assembly: Assembly
  readonly address: GatewayAddress
  /** Stops accepting, lets streams end, and leaves nothing running. */
  close(): Promise<void>
}

export interface ServeOptions {
  /** Flags and addresses, as on the command line. */
  readonly words: readonly string[]
  readonly configPath?: string | undefined
  readonly env?: Readonly<Record<string, string | undefined>>
  readonly say?: (line: string) => void
  /** Nobody waits for the first table any more: requests are served before it stands. */
  readonly stopped?: Promise<unknown>
  readonly times?: Partial<KeeperTimes>
  /** Where events are looked for, of engines that do not say it; for tests. */
  readonly usualPorts?: UsualPorts
}

export function serveCommand(): Command {
  return new Command('serve')
    .description('Route requests to engines by what their KV caches hold.')
    .argument('[addresses...]', 'engines, such as http://gpu1:8000 http://gpu2:8000')
    .option('--config <file>', 'a YAML file with settings (WARMROUTE_CONFIG)')
    .allowUnknownOption() // settings are flags too, and are read and refused by their declarations
    .addHelpText(
      'after',
      () => `
Asks each engine what it is and where its events are, starts to route at once by its own decisions, and becomes
exact as events arrive. Engines that are down are asked again and join when they answer.

  warmroute serve http://gpu1:8000 http://gpu2:8000
  warmroute serve prefill=http://gpu1:8000 decode=http://gpu2:8000
  warmroute serve --config warmroute.yaml --api-key secret

Every setting can stand in the file, in the environment (WARMROUTE_PORT) or here; docs/reference/config.md has them all.
${settingsHelp(['serve', 'server', 'routing'])}

Exit status: 0 ended by a signal, 1 could not start, 2 the settings are wrong.`,
    )
    .action(async (_: readonly string[], flags: { readonly config?: string }, command: Command) => {
      letHeapGrow()
      const stopped = stopSignal()
      const say = (line: string): void => console.log(line)
      const served = await serve({ words: command.args, configPath: flags.config, say, stopped })
      const signal = await stopped
      console.log(`${signal}: requests under way may end`)
      await served.close()
    })
}

/** The whole of `warmroute serve` but for signals. Throws `WR_INVALID_CONFIG`, or what listening failed with. */
export async function serve(options: ServeOptions): Promise<Served> {
  const { say = () => {} } = options
  const loaded = await readSettings(options.words, options.configPath, options.env)
  for (const warning of loaded.warnings) say(`warning: ${warning}`)
  const settings = loaded.values.serve
  const addresses = loaded.rest.map((word) => ({ ...readWorker(word), apiKey: settings.engineApiKey }))
  const configured = settings.workers.map((it) => ({ ...it, apiKey: it.apiKey ?? settings.engineApiKey }))
  const workers = [...configured, ...addresses]
  if (workers.length === 0)
    throw new WarmrouteError('WR_INVALID_CONFIG', {
      reason: 'no engines: name at least one address, such as http://gpu1:8000, or list them under serve.workers',
    })
  refuseTwins(workers.map(({ url }) => url))
  refuseOurselves(workers, loaded)
  for (const { labels } of loaded.values.serve.workers) roleOfLabels(labels) // a mistake in one is told now
  const snapshot = snapshotOf(loaded.values, options.env ?? process.env)
  if (snapshot) await proveFolder(dirname(snapshot.path), settings.snapshotFolder !== 'auto', say)
  const assembly = new Assembly({
    ...(await assemblyOptions(loaded, options.env)),
    workers,
    ...(options.times ? { times: options.times } : {}),
    usualPorts: options.usualPorts,
    snapshot,
    log: commandLog(settings.log),
  })
  try {
    const address = await assembly.listen()
    await Promise.race([settled(assembly), ...(options.stopped ? [options.stopped] : [])])
    say(greeting(address, loaded))
    for (const line of ['', ...startTable(assembly.reports()), '']) say(line)
    return { assembly, address, close: () => assembly.close() }
  } catch (error) {
    await assembly.close()
    throw error
  }
}

async function assemblyOptions(
  { values, origins }: Settings,
  env: ServeOptions['env'],
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
      metricsBuckets: bucketsFromEnv(env ?? process.env),
      listen: { ...gateway.listen, host: listenHost({ values, origins }) },
      apiKeyHashes: [...server.apiKeyHashes, ...own.apiKeys.map(hashKey)],
      adminKeyHashes: [...server.adminKeyHashes, ...own.adminKeys.map(hashKey)],
    },
  }
}

/** One engine under two names would be two workers to the router, each with half of its load and one cache. */
function refuseTwins(urls: readonly string[]): void {
  const seen = new Map<string, string>()
  for (const url of urls) {
    const before = seen.get(engineIdentity(url))
    if (before !== undefined)
      throw new WarmrouteError('WR_INVALID_CONFIG', { reason: `one engine is named twice: ${before} and ${url}` })
    seen.set(engineIdentity(url), url)
  }
}

/** Every engine was looked at, and what is not exact yet has had its moment to become so. */
async function settled(assembly: Assembly): Promise<void> {
  await assembly.looked()
  await assembly.until(
    (reports) => reports.every(({ verdict }) => !verdict || verdict.fix !== undefined || isSettled(verdict.mode)),
    settleMs,
  )
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

function isSettled(mode: WorkerMode): boolean {
  return mode === 'exact' || mode === 'load-only'
}

/** One file per port: two routers on one machine have two ports. A port that changes has no file to come back to. */
function snapshotOf(
  { server, serve: own }: Settings['values'],
  env: Readonly<Record<string, string | undefined>>,
): AssemblyOptions['snapshot'] {
  const { snapshotFolder, snapshotIntervalSecs } = own
  if (snapshotFolder === 'none' || (snapshotFolder === 'auto' && server.port === 0)) return undefined
  const state = env['XDG_STATE_HOME'] || join(homedir(), '.local', 'state')
  const folder = snapshotFolder === 'auto' ? join(state, 'warmroute') : snapshotFolder
  return { path: join(folder, `caches-${server.port}.snapshot`), intervalMs: 1000 * snapshotIntervalSecs }
}

/** Throws `WR_INVALID_CONFIG` where somebody named the folder; the usual one may be missing, as in a container without a home. */
async function proveFolder(folder: string, isNamed: boolean, say: (line: string) => void): Promise<void> {
  try {
    await makeFolder(folder)
    await access(folder, constants.W_OK)
  } catch (cause) {
    const reason = `snapshot_folder: ${folder} cannot be written: ${(cause as Error).message}`
    if (isNamed) throw new WarmrouteError('WR_INVALID_CONFIG', { reason }, { cause })
    say(`warning: ${reason}; after a restart caches are learned anew`)
  }
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

function greeting({ url, adminUrl }: GatewayAddress, { values, origins }: Settings): string {
  const isSaid = origins.get('server.host')?.kind !== 'default'
  const key = needsKey(values) ? 'clients need a key' : 'no key is asked for'
  const why = isSaid
    ? `as host says; ${key}`
    : needsKey(values)
      ? 'every address of this machine; clients need a key'
      : 'this machine only: set --api-key or --host to let others in'
  return `warmroute listens on ${url} (${why})${adminUrl === undefined ? '' : `\nadmin routes on ${adminUrl}`}`
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
