/** `warmroute serve`: the router in front of engines, from addresses to a clean end. */
import { access, constants } from 'node:fs/promises'
import { dirname, isAbsolute, join } from 'node:path'
import { Command } from 'commander'
import { WarmrouteError } from '../core/protocol/index.js'
import type { GatewayAddress } from '../server/index.js'
import type { AssemblyOptions } from './assemble/assembly-options.js'
import { Assembly } from './assemble/assembly.js'
import { makeFolder } from './assemble/make-folder.js'
import type { UsualPorts } from './assemble/find-sockets.js'
import type { KeeperTimes } from './assemble/worker-keeper.js'
import { setCollector } from './collector.js'
import { homeFolder } from './home.js'
import { commandLog } from './log.js'
import { proveSettings } from './serve-settings.js'
import type { Settings } from './settings.js'
import { needsKey, readSettings, settingsHelp } from './settings.js'
import { settled, showWorkers } from './show-workers.js'
import { stopSignal } from './stop-signal.js'

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
      setCollector()
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
  const provenOptions = await proveSettings(loaded, options.env)
  if (provenOptions.workers.length === 0)
    throw new WarmrouteError('WR_INVALID_CONFIG', {
      reason: 'no engines: name at least one address, such as http://gpu1:8000, or list them under serve.workers',
    })
  const snapshot = snapshotOf(loaded.values, options.env ?? process.env, say)
  if (snapshot) await proveFolder(dirname(snapshot.path), settings.snapshotFolder !== 'auto', say)
  const assembly = new Assembly({
    ...provenOptions,
    ...(options.times ? { times: options.times } : {}),
    usualPorts: options.usualPorts,
    snapshot,
    log: commandLog({ form: settings.log, level: settings.logLevel }),
  })
  try {
    const address = await assembly.listen()
    await Promise.race([settled(assembly), ...(options.stopped ? [options.stopped] : [])])
    say(greeting(address, loaded))
    const showing = showWorkers(assembly, say)
    return { assembly, address, close: () => assembly.close().then(() => showing) }
  } catch (error) {
    await assembly.close()
    throw error
  }
}

/** One file per port: two routers on one machine have two ports. A port that changes has no file to come back to. */
function snapshotOf(
  { server, serve: own }: Settings['values'],
  env: Readonly<Record<string, string | undefined>>,
  say: (line: string) => void,
): AssemblyOptions['snapshot'] {
  const { snapshotFolder, snapshotIntervalSecs } = own
  if (snapshotFolder === 'none' || (snapshotFolder === 'auto' && server.port === 0)) return undefined
  const folder = snapshotFolder === 'auto' ? usualFolder(env['XDG_STATE_HOME']) : snapshotFolder
  if (folder === undefined) {
    say(
      'warning: there is no home folder: after a restart caches are learned anew, unless --snapshot-folder names a place',
    )
    return undefined
  }
  return { path: join(folder, `caches-${server.port}.snapshot`), intervalMs: 1000 * snapshotIntervalSecs }
}

function usualFolder(state: string | undefined): string | undefined {
  if (state !== undefined && isAbsolute(state)) return join(state, 'warmroute')
  const home = homeFolder()
  return home && join(home, '.local', 'state', 'warmroute')
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
