/** The options of `warmroute serve` beside those of the front door: which engines, how they are chosen, whose tokens. */
import { z } from 'zod'
import type { ConfigIssue } from '../core/protocol/index.js'
import { WarmrouteError } from '../core/protocol/index.js'
import { addressTrouble, engineAddress } from './engine-address.js'
import type { OptionGroup } from './group.js'
import { defineGroup } from './group.js'
import type { Option } from './option.js'
import { choice, number, optionalText, structure, text, timerMsMax, toggle } from './option.js'

export interface ConfiguredWorker {
  readonly url: string
  readonly apiKey?: string | undefined
  readonly events?: string | undefined
  readonly replay?: string | undefined
  readonly role?: 'aggregated' | 'prefill' | 'decode' | undefined
  /** As its deployment labels it; says the role where `role` does not. */
  readonly labels?: Readonly<Record<string, string>> | undefined
  readonly transfer?: ConfiguredTransfer | undefined
  readonly taints?: readonly string[] | undefined
  readonly topologyDomains?: Readonly<Record<string, string>> | undefined
  readonly kvTransferDomain?: string | undefined
  readonly kvTransferEnforcement?: 'required' | 'preferred' | undefined
  readonly kvTransferPreferredWeight?: number | undefined
}

/** How a prefill worker's KV reaches a decode worker, where the engine does not say it. */
export interface ConfiguredTransfer {
  readonly connector?: (typeof connectors)[number] | undefined
  readonly host?: string | undefined
  readonly port?: number | undefined
  readonly engineIds?: readonly string[] | undefined
  readonly tpSize?: number | undefined
  readonly ppSize?: number | undefined
  readonly leaseMs?: number | undefined
}

const connectors = ['nixl', 'nixl_push', 'mooncake', 'shared_cache', 'sglang'] as const

export interface ServeConfig {
  readonly workers: readonly ConfiguredWorker[]
  /** For workers that have no key of their own. */
  readonly engineApiKey: string | undefined
  readonly apiKeys: readonly string[]
  readonly adminKeys: readonly string[]
  readonly routerMode: (typeof routerModes)[number]
  readonly enforceDisagg: boolean
  readonly prefillFallback: boolean
  readonly tokenizer: string | undefined
  /** Folders by model, before `tokenizer`. */
  readonly tokenizers: Readonly<Record<string, string>>
  readonly hubCache: string | undefined
  readonly hubDownload: boolean
  readonly hubEndpoint: string
  readonly hubToken: string | undefined
  readonly prefillTimes: PrefillTimes | undefined
  readonly log: 'text' | 'json' | 'off'
  readonly logLevel: 'debug' | 'info' | 'warn'
  /** `auto`: where this system keeps state; `none`: nowhere. */
  readonly snapshotFolder: string
  readonly snapshotIntervalSecs: number
  readonly trtllmPollMs: number
  readonly engineProfile: string | undefined
  readonly decisionLog: string | undefined
  readonly decisionLogMaxMib: number
}

const milliseconds = z.number().nonnegative()
const prefillTimesSchema = z.union([
  z.strictObject({
    base: milliseconds,
    per_token: milliseconds,
    per_token2: milliseconds.optional(),
    per_token_prefix: milliseconds.optional(),
  }),
  z.literal('online'),
  z.array(z.strictObject({ new: z.number().positive(), prefix: z.number().nonnegative(), ms: milliseconds })).min(1),
])

/** How long prefills take: milliseconds as a formula of new and cached tokens, measured points between which is interpolated, or learned. */
export type PrefillTimes = z.output<typeof prefillTimesSchema>

const routerModes = ['kv', 'round-robin', 'random', 'least-loaded', 'power-of-two', 'token-balance', 'direct'] as const

const workerSchema = z.union([
  z.string(),
  z.strictObject({
    url: z.string(),
    api_key: z.string().optional(),
    events: z.string().optional(),
    replay: z.string().optional(),
    role: z.enum(['aggregated', 'prefill', 'decode']).optional(),
    labels: z.record(z.string(), z.string()).optional(),
    connector: z.enum(connectors).optional(),
    transfer_host: z.string().optional(),
    transfer_port: z.number().int().min(1).max(65_535).optional(),
    engine_ids: z.array(z.string()).optional(),
    tp_size: z.number().int().min(1).optional(),
    pp_size: z.number().int().min(1).optional(),
    kv_lease_ms: z.number().positive().max(timerMsMax).optional(),
    taints: z.array(z.string()).optional(),
    topology_domains: z.record(z.string(), z.string()).optional(),
    kv_transfer_domain: z.string().optional(),
    kv_transfer_enforcement: z.enum(['required', 'preferred']).optional(),
    kv_transfer_preferred_weight: z.number().optional(),
  }),
])

const options = {
  workers: structure(
    z.array(workerSchema),
    [],
    'The engines: addresses, or objects with `url`, `api_key`, and `events` and `replay` (ZeroMQ addresses) for an engine that does not say them itself; `role`, `labels`, `connector` and more for disaggregated workers (docs/pairs.md). Addresses on the command line come on top.',
    'a list',
  ),
  engineApiKey: optionalText(
    "The engines' own key, where they need one; `workers` can name one per engine. Never shown.",
  ),
  apiKey: optionalText(
    'Keys that clients must send, separated by commas, beside those of api_key_hashes. Never shown; with a key every address of the machine is listened on unless host says otherwise.',
  ),
  adminKey: optionalText('Keys for the admin routes, separated by commas, beside those of admin_key_hashes.'),
  routerMode: choice(
    routerModes,
    'kv',
    'How a worker is chosen. `kv` looks at caches and load, as `routing` says; the others look at no cache. `direct` takes the worker that the request names, and refuses one that names none.',
    { env: ['DYN_ROUTER_MODE'] },
  ),
  enforceDisagg: toggle(
    false,
    'No request is served alone for want of a prefill: a model without prefill workers that take requests is hidden and answers 503. Off: the decode workers do it alone.',
    { env: ['DYN_ENFORCE_DISAGG'] },
  ),
  prefillFallback: toggle(
    true,
    'A prefill that failed on two workers is done by the decode worker. Off: the request fails. enforce_disagg switches it off.',
  ),
  prefillTimes: {
    ...structure<PrefillTimes | undefined>(
      prefillTimesSchema.optional(),
      undefined,
      'How long a prefill takes on these engines, in milliseconds: `{base, per_token, per_token2, per_token_prefix}`, or a list of measured points `{new, prefix, ms}`, or `online`: learned per worker from the prefills that are seen, from engine_profile on where there is one. With it, prefill load falls while a prompt is computed. For `policy: dynamo`; `warm` learns by itself in any case.',
      '`online`, an object or a list',
    ),
    fromText: (value) => (value === 'online' ? value : (JSON.parse(value) as unknown)),
  },
  tokenizer: optionalText(
    "A folder with the model's tokenizer.json. None: looked for where the engine says the model is and in hub_cache; the engine is asked last.",
  ),
  tokenizers: structure(
    z.record(z.string(), z.string()),
    {},
    'Folders with tokenizers by the name of the model, where several models are served; before `tokenizer`.',
    'an object',
  ),
  hubCache: optionalText(
    'The cache folder of Hugging Face tools, to find tokenizers in. None: where those tools keep it, `HF_HOME` considered.',
    { env: ['HF_HUB_CACHE'] },
  ),
  hubDownload: toggle(
    false,
    "Download a model's tokenizer files (at most 64 MB each, a minute each) from hub_endpoint into hub_cache when they are nowhere on this machine. Off: nothing outside is asked but the engines.",
  ),
  hubEndpoint: text('https://huggingface.co', 'The hub that hub_download asks.', { env: ['HF_ENDPOINT'] }),
  hubToken: optionalText('The key for the hub, sent to hub_endpoint alone. Never shown.', { env: ['HF_TOKEN'] }),
  log: choice(['text', 'json', 'off'], 'text', 'How state changes are logged, on standard error.'),
  logLevel: choice(
    ['debug', 'info', 'warn'],
    'info',
    'What is logged: with `info` a line for each change of state, with `debug` one for each request as well, by its id; with `warn` only what a person may want to act on. Prompts and keys are in none of them.',
  ),
  snapshotFolder: text(
    'auto',
    "The folder of a file with what is known of the engines' caches, as hashes and cache salts, so that routing is exact right after a restart; one file per port. `auto` is `$XDG_STATE_HOME/warmroute` or `~/.local/state/warmroute`, and nowhere when the port is 0 or there is no home. `none` keeps nothing.",
  ),
  snapshotIntervalSecs: number(
    60,
    'Seconds between two snapshots. One more is taken at the end; 0 takes only that one.',
    { range: { min: 0, max: 86_400 } },
  ),
  trtllmPollMs: number(
    0,
    'Milliseconds between two polls of the event queue of TensorRT-LLM workers (`POST /kv_cache_events`; the server needs `event_buffer_max_size` above 0), which makes them exact; 50 to 200 are sensible. A poll empties the queue: this router must be the only one that asks, or both go wrong. 0 asks nobody.',
    { range: { min: 0, max: 60_000 } },
  ),
  engineProfile: optionalText(
    'A file of `warmroute profile`: where policy warm, and prefill_times when it is `online`, start to learn how long prefills take. None: from nothing.',
  ),
  decisionLog: optionalText(
    'A file to which every request is written that was sent to a worker, as a line that `warmroute replay` reads: times, token counts, and salted hashes of 512 tokens each; no text. None: nothing is written.',
  ),
  decisionLogMaxMib: number(
    256,
    'MiB of the decision log; a full file is renamed to end in `.1`, in place of the one before, and a new one begins.',
    { range: { min: 1, max: 1_048_576 } },
  ),
} satisfies Record<string, Option>

export const serveGroup: OptionGroup<ServeConfig> = defineGroup(
  'serve',
  'Which engines are served, how they are chosen, and whose tokens are used.',
  options,
  ({ apiKey, adminKey, ...plain }) => {
    const issues: ConfigIssue[] = []
    const workers = plain.workers.map(toWorker).map((it) => {
      const url = engineAddress(it.url)
      if (url === undefined) issues.push({ field: 'workers', message: addressTrouble(it.url) })
      return { ...it, url: url ?? it.url }
    })
    if (!isHttp(plain.hubEndpoint))
      issues.push({ field: 'hubEndpoint', message: `hub_endpoint: "${plain.hubEndpoint}" is not an http address` })
    const [apiKeys, adminKeys] = [keysIn(apiKey), keysIn(adminKey)]
    // An empty variable in a script would open the door instead of locking it.
    if (apiKey !== undefined && apiKeys.length === 0) issues.push({ field: 'apiKey', message: `api_key ${noKey}` })
    if (adminKey !== undefined && adminKeys.length === 0)
      issues.push({ field: 'adminKey', message: `admin_key ${noKey}` })
    if (issues.length > 0) throw new WarmrouteError('WR_INVALID_CONFIG', { issues })
    return { ...plain, workers, apiKeys, adminKeys }
  },
)

const noKey = 'is given and holds no key; leave it out where none is wanted'

function isHttp(url: string): boolean {
  return URL.canParse(url) && /^https?:$/.test(new URL(url).protocol)
}

function toWorker(value: z.infer<typeof workerSchema>): ConfiguredWorker {
  if (typeof value === 'string') return { url: value }
  const { url, api_key: apiKey, events, replay, role, labels, taints } = value
  return {
    url,
    apiKey,
    events,
    replay,
    role,
    labels,
    taints,
    transfer: toTransfer(value),
    topologyDomains: value.topology_domains,
    kvTransferDomain: value.kv_transfer_domain,
    kvTransferEnforcement: value.kv_transfer_enforcement,
    kvTransferPreferredWeight: value.kv_transfer_preferred_weight,
  }
}

function toTransfer(value: Exclude<z.infer<typeof workerSchema>, string>): ConfiguredTransfer | undefined {
  const transfer = {
    connector: value.connector,
    host: value.transfer_host,
    port: value.transfer_port,
    engineIds: value.engine_ids,
    tpSize: value.tp_size,
    ppSize: value.pp_size,
    leaseMs: value.kv_lease_ms,
  }
  return Object.values(transfer).some((it) => it !== undefined) ? transfer : undefined
}

function keysIn(value: string | undefined): string[] {
  return (value ?? '')
    .split(',')
    .map((key) => key.trim())
    .filter((key) => key !== '')
}
