/** The token service as a model's tokenizer: which of its routes a request takes, and what to do when it has no tokens. */
import type { Body, Dialect, Route, TokenService } from '../../tokens/index.js'
import { Tokens } from '../../tokens/index.js'
import type { Endpoint } from './endpoints.js'
import type { EncodedPrompt, PromptRequest, PromptTokenizer, PromptTokens, TokenizerAnswer } from './prompt.js'
import { hasMedia } from './prompt.js'

const routes: Readonly<Partial<Record<Endpoint, Route>>> = {
  chat_completions: 'chat',
  completions: 'completions',
  responses: 'responses',
  anthropic_messages: 'messages',
  generate: 'completions',
}

/** Routes whose answers count the prompt as the engine computes it; the others leave out what was cached, or add what tools did. */
const counts: ReadonlySet<Route> = new Set<Route>(['chat', 'completions'])

export interface ServiceTokenizerOptions {
  /** The name under which the service knows the model. */
  readonly model: string
  /** Engines of other kinds that serve the model: their workers may make other tokens of the same request. */
  readonly others?: (() => readonly OtherDialect[]) | undefined
  /**
   * For a model that its engine renders by code of its own rather than by its template: the text of a chat as the engine makes it, with
   * its special tokens written out. Undefined, or an error: nobody knows, and the prompt goes by its bytes, as does one that is too long
   * to be parsed at once.
   */
  readonly render?: ((request: ParsedPrompt) => string | undefined) | undefined
  /** How long a request waits for its tokens before it goes by its bytes. */
  readonly deadlineMs?: number
}

export interface OtherDialect {
  readonly dialect: Dialect
  readonly workerIds: ReadonlySet<bigint>
}

export type ParsedPrompt = Omit<PromptRequest, 'body'> & { readonly body: NonNullable<PromptRequest['body']> }

const nobody: readonly OtherDialect[] = []

/** Where the service cannot know the tokens (media, no tokenizer, too slow) the prompt's bytes are used. */
export function createServiceTokenizer(
  service: Pick<TokenService, 'tokenizeRequest' | 'counted' | 'idMax' | 'fillsEmptyTexts'>,
  options: ServiceTokenizerOptions,
): PromptTokenizer {
  const { model, deadlineMs = 5_000, others = () => nobody, render } = options

  function otherDialectOf(workerId: bigint): Dialect | undefined {
    return others().find(({ workerIds }) => workerIds.has(workerId))?.dialect
  }

  async function tokensOf(request: PromptRequest, route: Route, dialect?: Dialect): Promise<PromptTokens | undefined> {
    const { row, blockSize, signal } = request
    const isGenerate = row.endpoint === 'generate'
    const isRendered = render !== undefined && route !== 'completions'
    const shown = isGenerate
      ? asCompletion(request)
      : isRendered
        ? asRendered(request, render)
        : { body: request.body, raw: request.bytes }
    if (!shown) return undefined
    const asked = { raw: shown.raw, signal, deadlineMs }
    const body = shown.body as Body | undefined
    const result = await service.tokenizeRequest(model, isRendered ? 'completions' : route, body, asked, dialect)
    if (!(result instanceof Tokens)) return undefined
    return {
      tokens: result.ids,
      isExact: true,
      totalTokens: result.totalCount,
      counted:
        counts.has(route) && result.source !== 'request' && !(isGenerate && result.promptCount > 1)
          ? (engines, workerId) => service.counted(model, result.totalCount, engines, otherDialectOf(workerId))
          : undefined,
      blockMmInfos: result.mediaByBlock(blockSize),
      templateMs: result.took?.templateMs,
      tokenizeMs: result.took?.encodeMs,
      hash: (scheme, hasher) => result.blockHashes(scheme, hasher),
      hashAhead: result.isLong ? (scheme, hasher) => result.hashAhead(scheme, hasher) : undefined,
    }
  }

  return {
    get idMax() {
      return service.idMax(model)
    },
    get fillsEmptyTexts() {
      return service.fillsEmptyTexts(model)
    },
    async tokenize(request): Promise<TokenizerAnswer> {
      const route = routes[request.row.endpoint]
      if (!route) return undefined
      const usual = await tokensOf(request, route)
      const encodings: EncodedPrompt[] = []
      // One after the other: what both make alike the second finds remembered.
      for (const { dialect, workerIds } of others()) {
        const prompt = await tokensOf(request, route, dialect)
        if (usual ? !isSame(usual, prompt) : prompt) encodings.push({ workerIds, prompt })
      }
      if (encodings.length === 0) return usual
      return usual ? { ...usual, encodings } : { encodings }
    },
  }
}

interface Shown {
  readonly body: object | undefined
  readonly raw?: Uint8Array
}

/** A chat as the text that somebody else makes of it. */
function asRendered(request: PromptRequest, render: (request: ParsedPrompt) => string | undefined): Shown | undefined {
  const { body } = request
  try {
    const prompt = body && render({ ...request, body })
    if (prompt === undefined) return undefined
    return { body: { model: request.model, prompt, add_special_tokens: false, is_rendered: true } }
  } catch {
    return undefined
  }
}

/**
 * What SGLang's own route encodes: a text, or several, as its completions do. Undefined beside media, and in a session that the client
 * opened itself, where earlier turns stand before the text.
 */
function asCompletion({ body, bytes }: PromptRequest): Shown | undefined {
  if (!body) return { body, raw: bytes } // a long one is a completion already
  if (body['text'] === undefined || hasMedia(body) || (body['session_params'] ?? null) !== null) return undefined
  return { body: { model: body['model'], prompt: body['text'] } }
}

function isSame(one: PromptTokens, other: PromptTokens | undefined): boolean {
  if (one.tokens.length !== other?.tokens.length || one.totalTokens !== other.totalTokens) return false
  const isEqual = Buffer.compare(bytesOf(one.tokens), bytesOf(other.tokens)) === 0
  return isEqual && one.blockMmInfos === undefined && other.blockMmInfos === undefined
}

function bytesOf({ buffer, byteOffset, byteLength }: Uint32Array): Uint8Array {
  return new Uint8Array(buffer, byteOffset, byteLength)
}
