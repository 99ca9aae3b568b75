/** The options of the front door: where it listens, what it accepts, how long it waits. */
import { z } from 'zod'
import { WarmrouteError } from '../core/protocol/index.js'
import { defineGroup } from './group.js'
import {
  choice,
  list,
  milliseconds,
  number,
  oneOf,
  optionalNumber,
  optionalText,
  snakeCase,
  structure,
  text,
  toggle,
} from './option.js'

const port = { min: 0, max: 65_535, isWhole: true }
/** What is parsed is a text first, and the longest that V8 makes has 512 MiB. */
const mebibytesMax = 511
const monitors = ['1.1', '1.0'] as const

const options = {
  host: text(
    '127.0.0.1',
    'Address to listen on. 0.0.0.0 is every address of the machine, and what holds when clients need a key and nothing is said here.',
    {
      flags: ['--http-host'],
      env: ['DYN_HTTP_HOST'],
    },
  ),
  port: number(8080, 'Port to listen on. 0 takes a free one.', {
    range: port,
    flags: ['--http-port'],
    env: ['DYN_HTTP_PORT'],
  }),
  adminHost: text('127.0.0.1', 'Address of the admin port, where there is one.'),
  adminPort: optionalNumber(undefined, 'A port of its own for the admin routes; none leaves them on the main port.', {
    range: port,
  }),
  tlsCertPath: optionalText('PEM file of the certificate; needs tls_key_path.', { env: ['DYN_TLS_CERT_PATH'] }),
  tlsKeyPath: optionalText('PEM file of the private key; needs tls_cert_path.', { env: ['DYN_TLS_KEY_PATH'] }),
  apiKeyHashes: list('SHA-256 of each API key, as hex. None: clients need no key.'),
  adminKeyHashes: list('SHA-256 of each admin key, as hex. None: admin routes answer to this machine only.'),
  bodyLimitMb: number(45, 'Largest request body, in MiB.', {
    range: { min: 0.001, max: mebibytesMax },
    env: ['DYN_HTTP_BODY_LIMIT_MB'],
  }),
  bodyMemoryMb: number(
    2048,
    'Bodies of all requests under way, in MiB, counted as they arrive and until the answer begins. A request whose body finds no room is refused as overload.',
    { range: { min: 0.001 } },
  ),
  editedAnswerLimitMb: number(
    16,
    'Largest whole answer that is changed on its way (nvext fields that were asked for, errors with strict: dynamo), in MiB. A longer one passes as it is.',
    { range: { min: 0, max: mebibytesMax } },
  ),
  storedResponsesMax: number(
    32_768,
    'Responses (/v1/responses) of each model whose workers are remembered, so that a request with previous_response_id goes where the response is kept. The oldest is forgotten first. 0 remembers none.',
    { range: { min: 0, max: 1_000_000, isWhole: true } },
  ),
  requestsMax: number(20_000, 'Requests under way at once; more are refused as overload.', {
    range: { min: 1, isWhole: true },
  }),
  strict: choice(['off', 'dynamo'], 'off', "dynamo validates requests and shapes answers as upstream's frontend does."),
  overloadStatus: number(529, 'Status of a refusal because everybody is busy. 503 is what clients of 1.2 know.', {
    range: { min: 400, max: 599, isWhole: true },
    env: ['DYN_HTTP_OVERLOAD_STATUS_CODE'],
  }),
  keepAliveMs: milliseconds(15_000, 'A comment is sent on a stream that was silent for so long. 0 never.', {
    min: 0,
    env: ['DYN_HTTP_SSE_KEEP_ALIVE_INTERVAL_MS'],
  }),
  usageSampleEvery: number(
    8,
    'One stream in so many is asked for its usage when the client did not ask; the client does not see it. 0 never.',
    { range: { min: 0, isWhole: true } },
  ),
  allowedEngineFields: list(
    'Fields that steer an engine or may hold it up, and that clients may send, such as priority or stop_regex. None by default.',
  ),
  showsWorker: toggle(
    true,
    'Response headers say which worker served and how much of the prompt it should have cached.',
  ),
  bodyTimeoutMs: milliseconds(60_000, 'From the first byte of a request to its last.', { min: 1 }),
  connectTimeoutMs: milliseconds(5_000, 'To connect to a worker.', { min: 1 }),
  totalTimeoutMs: milliseconds(
    3_600_000,
    'From the last byte of a request to the last byte of its answer, waiting for a worker included.',
    { min: 1 },
  ),
  noProgressTimeoutMs: milliseconds(
    30_000,
    'Without a byte of the request and without any progress of its worker. 0 waits for ever.',
    { min: 0 },
  ),
  idleTimeoutMs: milliseconds(0, 'Between two bytes of a stream, whatever else its worker does. 0 waits for ever.', {
    min: 0,
  }),
  prefillTimeoutMs: milliseconds(120_000, 'From dispatch of a remote prefill to its answer. 0 waits for ever.', {
    min: 0,
  }),
  transferTimeoutMs: milliseconds(
    60_000,
    'From dispatch of a decode after a remote prefill to its first token, transfer included; whole answers get transfer_token_timeout_ms besides. 0 waits for ever.',
    { min: 0 },
  ),
  transferTokenTimeoutMs: milliseconds(
    500,
    'Added to transfer_timeout_ms for each token that an answer may have which is not streamed (4,096 where neither request nor engine says): nothing of it shows before its end. 0: such answers are not watched for a transfer that hangs.',
    { min: 0 },
  ),
  shutdownGraceSecs: number(
    0,
    'How long requests are still served after SIGTERM or SIGINT while /health and /ready say 503, so that balancers look away first: a few seconds for rolling updates. 0 refuses new requests at once.',
    { range: { min: 0, max: 86_400 } },
  ),
  gracefulShutdownTimeoutSecs: number(
    5,
    'How long a shutdown waits for streams to end and for clients to have read them, after shutdown_grace_secs.',
    {
      range: { min: 0, max: 86_400 },
      env: ['DYN_HTTP_GRACEFUL_SHUTDOWN_TIMEOUT_SECS'],
    },
  ),
  healthIntervalMs: milliseconds(5_000, 'How often workers are asked for their health. 0 never.', { min: 0 }),
  metricsIntervalMs: milliseconds(1_000, 'How often the load that engines report is read. 0 never.', { min: 0 }),
  quarantineMs: milliseconds(
    1_000,
    'How long a worker is left out after a fault before it is asked again; doubles up to 30 s.',
    { min: 1 },
  ),
  monitor: choice(
    monitors,
    '1.1',
    'Which rules say that a worker is busy: those of 1.1 with a latch, or those of 1.0 with thresholds in ten-thousandths.',
  ),
  monitors: structure(
    z.record(z.string(), oneOf(monitors)),
    {},
    'The same by the name of the model, where several models are served; before `monitor`.',
    'an object',
  ),
  sessionAffinityTtlSecs: optionalNumber(
    undefined,
    'Requests that name the same session in their headers stay with one worker until it was idle for so long. none: they go where their prompt is cached.',
    {
      range: { min: 1, max: 31_536_000 },
      accepts: 'seconds from 1 to 31536000, or none',
      flags: ['--router-session-affinity-ttl-secs'],
      env: ['DYN_ROUTER_SESSION_AFFINITY_TTL_SECS'],
    },
  ),
  metricsCompat: choice(
    ['1.2', '1.0'],
    '1.2',
    'Generation of the routing-overhead histograms: 1.0 has its buckets and takes phases as differences.',
  ),
  metricsPrefix: text(
    'dynamo_frontend',
    "Prefix of the front door's metrics; what Prometheus does not take becomes `_`. Those of workers and of the queue keep theirs, and the Grafana board asks for the default.",
    { env: ['DYN_METRICS_PREFIX'] },
  ),
  activeDecodeBlocksThreshold: optionalNumber(
    undefined,
    'Share of KV blocks in use above which a worker is busy. Unless it is set: 1.0 with `compat: dynamo-1.2`, as upstream (not with `monitor: 1.0`).',
    { range: { min: 0, max: 1 }, env: ['DYN_ACTIVE_DECODE_BLOCKS_THRESHOLD'] },
  ),
  activePrefillTokensThreshold: optionalNumber(
    undefined,
    'Prefill tokens under way above which a worker is busy. Unless it is set: 10000000 with `compat: dynamo-1.2`.',
    { range: { min: 0, isWhole: true }, env: ['DYN_ACTIVE_PREFILL_TOKENS_THRESHOLD'] },
  ),
  activePrefillTokensThresholdFrac: optionalNumber(
    undefined,
    'The same as a multiple of what the engine computes in one step. Unless it is set: 10.0 with `compat: dynamo-1.2`.',
    { range: { min: 0 }, env: ['DYN_ACTIVE_PREFILL_TOKENS_THRESHOLD_FRAC'] },
  ),
  disableAdminApi: toggle(false, 'The admin routes are 404, whoever asks and on whichever port.', {
    env: ['DYN_DISABLE_FRONTEND_ADMIN_API'],
  }),
}

export type ServerConfig = ReturnType<typeof complete>

export const serverGroup = defineGroup('server', 'The front door.', options, complete)

/** As somebody said it: `none` switches a limit off, undefined leaves it to the mode of compatibility. */
type SaidLimit = number | 'none' | undefined

function complete(
  values: { readonly [Name in keyof typeof options]: (typeof options)[Name]['fallback'] },
  isSet: (name: keyof typeof options) => boolean,
) {
  const issues: { field: string; message: string }[] = []
  const check = (field: keyof typeof options, holds: boolean, message: string): void => {
    if (!holds) issues.push({ field, message: `${snakeCase(field)}: ${message}` })
  }
  check(
    'tlsKeyPath',
    (values.tlsCertPath === undefined) === (values.tlsKeyPath === undefined),
    'certificate and key go together',
  )
  for (const field of ['apiKeyHashes', 'adminKeyHashes'] as const)
    check(
      field,
      values[field].every((hash) => /^[0-9a-f]{64}$/i.test(hash)),
      'each must be the SHA-256 of a key, 64 hex digits, as `printf %s KEY | sha256sum` gives',
    )
  if (issues.length > 0) throw new WarmrouteError('WR_INVALID_CONFIG', { issues })
  const said = (name: (typeof limits)[number]): SaidLimit => (isSet(name) ? (values[name] ?? 'none') : undefined)
  return {
    ...values,
    activeDecodeBlocksThreshold: said('activeDecodeBlocksThreshold'),
    activePrefillTokensThreshold: said('activePrefillTokensThreshold'),
    activePrefillTokensThresholdFrac: said('activePrefillTokensThresholdFrac'),
  }
}

const limits = [
  'activeDecodeBlocksThreshold',
  'activePrefillTokensThreshold',
  'activePrefillTokensThresholdFrac',
] as const
