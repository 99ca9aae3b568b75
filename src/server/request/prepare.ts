/** From a request's bytes to what routing and dispatch need of it. Parses once, a long body in steps; the bytes stay as they came. */
import type { IncomingMessage } from 'node:http'
import { entriesOf, unkept, WarmrouteError } from '../../core/protocol/index.js'
import type { EngineKind } from '../../engines/index.js'
import type { GatewayContext } from '../context.js'
import { invalidBody, parseObject } from '../http/read-body.js'
import type { Model } from '../model.js'
import type { Resolved } from '../model-hub.js'
import type { FieldSpan } from '../scan-fields.js'
import { scanFields } from '../scan-fields.js'
import { spliceBody } from '../splice-body.js'
import type { Steps } from '../steps.js'
import type { LoadOnly } from '../../tokens/index.js'
import type { EndpointRow } from './endpoints.js'
import { fieldsToRemove } from './engine-fields.js'
import { forgiveBody } from './forgive-body.js'
import type { RoutingHints } from './hints.js'
import { readHints } from './hints.js'
import { readNvext } from './nvext.js'
import { parseBody } from './parse-body.js'
import type { NotKnown, PromptRequest, PromptTokens, TokenizerAnswer } from './prompt.js'
import { byteTokens, carried, carriedTokens, whyMoreThanText } from './prompt.js'
import { isCheckedStrictly, validateStrictly } from './strict.js'
import { outlineBody } from './strict-outline.js'

export interface Prepared {
  readonly row: EndpointRow
  readonly model: Model
  readonly loraName: string | undefined
  readonly bytes: Buffer
  /** Long texts in it may be `unread`. */
  readonly body: Readonly<Record<string, unknown>>
  readonly hints: RoutingHints
  /** The worker that gave the response which this request goes on with, where we know. */
  readonly holderId: bigint | undefined
  readonly isStream: boolean
  /** Kinds of engines that may get it: whatever would end one of them was looked for, and is not there. */
  harmlessTo: Set<EngineKind> | undefined
  /** What `strict: dynamo` asks of a body, once the model is known to be ready; of an unknown model before that is said (spec/serving.md 1.3). */
  checkStrictly(): Steps<void>
  /** The fields of the body, scanned when first needed. */
  fields(): readonly FieldSpan[]
  /** Every field parsed, for a tokenizer; undefined where that would hold the loop. */
  wholeBody(): Readonly<Record<string, unknown>> | undefined
}

export function* prepare(
  context: GatewayContext,
  row: EndpointRow,
  request: IncomingMessage,
  given: Buffer,
): Steps<Prepared> {
  const { depthMax } = context.limits
  const mended = context.isStrict ? yield* forgiveBody(given, context.limits, context.buffers) : given
  const bytes = mended ?? given
  const parsed = yield* parseBody(bytes, depthMax)
  if (!mended) throw invalidBody('the body is not JSON')
  const { body, isWhole, isLight } = parsed
  const parseWhole = (): Readonly<Record<string, unknown>> => (isWhole ? body : parseObject(bytes, depthMax))
  const isChecked = context.isStrict && isCheckedStrictly(row)
  const checkStrictly = isChecked
    ? function* (): Steps<void> {
        validateStrictly(row, yield* outlineBody(bytes, parsed))
      }
    : checkNothing
  if (isChecked && isUnknown(context, body['model'])) yield* checkStrictly()
  const { model, loraName } = resolveModel(context, body['model'])
  let scanned = parsed.fields
  const fields = (): readonly FieldSpan[] => (scanned ??= scanOrRefuse(bytes))
  const nvext = Object.hasOwn(body, 'nvext') ? yield* readNvext(bytes, fields()) : undefined
  return {
    row,
    model,
    loraName,
    bytes,
    body,
    hints: readHints(request.headers, body, nvext, context.limits),
    holderId: holderOf(row, model, body['previous_response_id']),
    isStream: row.generates && body['stream'] === true,
    harmlessTo: undefined,
    checkStrictly,
    fields,
    wholeBody: () => (isLight ? parseWhole() : undefined),
  }
}

function* checkNothing(): Steps<void> {}

function isUnknown({ hub }: GatewayContext, name: unknown): boolean {
  return typeof name === 'string' && name !== '' && !hub.knows(name)
}

/** The prompt as routing compares it. `undefined`: only load decides. */
export function promptOf(
  prepared: Prepared,
  signal: () => AbortSignal,
  context: Pick<GatewayContext, 'allowedEngineFields' | 'buffers'>,
): Promise<PromptTokens | undefined> | PromptTokens | undefined {
  const { row, model, body, bytes, hints } = prepared
  if (row.promptFields.length === 0 || !model.looksAtPrompts) return undefined
  if (hints.tokenData) return { tokens: hints.tokenData, isExact: true, howKnown: carried }
  const own = carriedTokens(row, model, body)
  if (own) return own
  const { tokenizer } = model.spec
  const fromBytes = ({ howKnown = unsaid, howOthersKnown, encodings }: NotKnown): PromptTokens => {
    const known = byteTokens(row, bytes, prepared.fields(), context.buffers)
    return { ...known, howKnown, howOthersKnown, encodings }
  }
  const shown = tokenizer ? shownToTokenizer(prepared, context.allowedEngineFields) : noTokenizer
  if (!tokenizer || isLoadOnly(shown)) {
    const howKnown = isLoadOnly(shown) ? shown : noTokenizer
    model.meters.loadOnlyPrompt(howKnown.loadOnly)
    return fromBytes({ howKnown })
  }
  const answer = tokenizer.tokenize({
    row,
    model: model.name,
    blockSize: model.spec.blockSize,
    signal: signal(),
    ...shown,
  })
  const known = (it: TokenizerAnswer): PromptTokens => (it?.tokens ? it : fromBytes(it ?? {}))
  return answer instanceof Promise ? answer.then(known) : known(answer)
}

const noTokenizer: LoadOnly = { loadOnly: 'no-tokenizer', detail: 'the model has no tokenizer' }
const unsaid: LoadOnly = { loadOnly: 'no-tokenizer', detail: 'the tokenizer does not say why' }

function isLoadOnly(shown: object): shown is LoadOnly {
  return 'loadOnly' in shown
}

/** A body with fields that steer engines is cut in one go up to this length. */
const cutBytesMax = 4 << 20

/** An engine may be asked for the tokens, which then sees the body: without what a client may not send. It may be too long for that. */
function shownToTokenizer(
  prepared: Prepared,
  allowed: ReadonlySet<string>,
): Pick<PromptRequest, 'body' | 'bytes'> | LoadOnly {
  const { body, bytes } = prepared
  const remove = fieldsToRemove(body, [], allowed)
  remove?.delete('nvext') // what it says of the prompt counts
  const isCut = remove !== undefined && remove.size > 0
  if (isCut && bytes.length > cutBytesMax) return tooLong
  const whole = prepared.wholeBody()
  if (!whole && prepared.row.endpoint === 'generate') return asLongCompletion(prepared, remove)
  if (!isCut) return { body: whole, bytes }
  return {
    body: whole && Object.fromEntries(Object.entries(whole).filter(([name]) => !remove.has(name))),
    bytes: Buffer.concat(spliceBody(bytes, prepared.fields(), { remove })),
  }
}

/**
 * A text of SGLang's own route that is too long for the loop, in the words of a completion, which the threads read, unless
 * the text is not all that the engine computes.
 */
function asLongCompletion(
  prepared: Prepared,
  removed: ReadonlySet<string> | undefined,
): Pick<PromptRequest, 'body' | 'bytes'> | LoadOnly {
  const { body, bytes } = prepared
  const isWithoutSession = removed?.has('session_params') ?? false
  const seen = isWithoutSession ? unkept(new Map(entriesOf(body)).set('session_params', undefined)) : body
  const unknown = whyMoreThanText(seen)
  if (unknown) return unknown
  const text = prepared.fields().findLast(({ name }) => name === 'text')
  if (!text || text.valueEnd - text.valueStart > cutBytesMax) return tooLong
  const model = JSON.stringify(body['model'])
  const head = Buffer.from(model === undefined ? '{"prompt":' : `{"model":${model},"prompt":`)
  return { body: undefined, bytes: Buffer.concat([head, bytes.subarray(text.valueStart, text.valueEnd), closing]) }
}

const closing = Buffer.from('}')
const tooLong: LoadOnly = { loadOnly: 'too-long', detail: 'the body is too long to be cut for a tokenizer' }

/** Until the first worker has said what it serves, nobody can say that a model is not served; upstream says it all the same. */
function resolveModel(context: GatewayContext, name: unknown): Resolved {
  if (context.hub.size === 0 && !context.isStrict && context.awaitsWorkers())
    throw new WarmrouteError('WR_MODEL_NOT_READY', {
      message: 'No worker has said yet which model it serves. Please retry shortly.',
    })
  return context.hub.resolve(name)
}

function holderOf({ endpoint }: EndpointRow, { responses }: Model, previousId: unknown): bigint | undefined {
  return endpoint === 'responses' && typeof previousId === 'string' ? responses.holderOf(previousId) : undefined
}

function scanOrRefuse(bytes: Buffer): readonly FieldSpan[] {
  const fields = scanFields(bytes)
  if (!fields) throw new WarmrouteError('WR_INVALID_BODY', { message: 'the body is not an object' })
  return fields
}
