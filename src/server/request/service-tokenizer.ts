/** The token service as a model's tokenizer: which of its routes a request takes, and what to do when it has no tokens. */
import type { Body, Dialect, LoadOnly, Route, TokenService } from '../../tokens/index.js'
import { Tokens } from '../../tokens/index.js'
import type { Endpoint } from './endpoints.js'
import type {
  EncodedPrompt,
  HowKnown,
  HowSomeKnown,
  PromptRequest,
  PromptTokenizer,
  PromptTokens,
  TokenizerAnswer,
} from './prompt.js'
import { whyMoreThanText } from './prompt.js'

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
  service: Pick<TokenService, 'announce' | 'tokenizeRequest' | 'notAsked' | 'counted' | 'idMax' | 'fillsEmptyTexts'>,
  options: ServiceTokenizerOptions,
): PromptTokenizer {
  const { model, deadlineMs = 5_000, others = () => nobody, render } = options

  function otherDialectOf(workerId: bigint): Dialect | undefined {
    return others().find(({ workerIds }) => workerIds.has(workerId))?.dialect
  }

  function notAsked({ loadOnly, detail }: LoadOnly): NoTokens {
    return { howKnown: service.notAsked(model, loadOnly, detail) }
  }

  async function tokensOf(request: PromptRequest, route: Route, dialect?: Dialect): Promise<SaidTokens | NoTokens> {
    const { row, blockSize, signal } = request
    const isGenerate = row.endpoint === 'generate'
    const isRendered = render !== undefined && route !== 'completions'
    const shown = isGenerate
      ? asCompletion(request)
      : isRendered
        ? asRendered(request, render)
        : { body: request.body, raw: request.bytes }
    if ('loadOnly' in shown) return notAsked(shown)
    const asked = { raw: shown.raw, signal, deadlineMs }
    const body = shown.body as Body | undefined
    const result = await service.tokenizeRequest(model, isRendered ? 'completions' : route, body, asked, dialect)
    if (!(result instanceof Tokens)) return { howKnown: result }
    return {
      tokens: result.ids,
      isExact: true,
      howKnown: result,
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
      service.announce(model)
      const route = routes[request.row.endpoint]
      if (!route) return notAsked(otherRoute)
      const usual = await tokensOf(request, route)
      const asked = others()
      if (asked.length === 0) return usual
      const encodings: EncodedPrompt[] = []
      const howOthersKnown: HowSomeKnown[] = []
      // One after the other: what both make alike the second finds remembered.
      for (const { dialect, workerIds } of asked) {
        const prompt = await tokensOf(request, route, dialect)
        howOthersKnown.push({ workerIds, howKnown: prompt.howKnown })
        if (!isSame(usual, prompt)) encodings.push({ workerIds, prompt: prompt.tokens ? prompt : undefined })
      }
      return { ...usual, howOthersKnown, encodings: encodings.length === 0 ? undefined : encodings }
    },
  }
}

type SaidTokens = PromptTokens & { readonly howKnown: HowKnown }

interface NoTokens {
  readonly tokens?: undefined
  readonly howKnown: LoadOnly
}

const otherRoute: LoadOnly = { loadOnly: 'other-route', detail: 'prompts of this route are not tokenized' }

interface Shown {
  readonly body: object | undefined
  readonly raw?: Uint8Array
}

/** A chat as the text that somebody else makes of it. */
function asRendered(request: PromptRequest, render: (request: ParsedPrompt) => string | undefined): Shown | LoadOnly {
  const { body } = request
  if (!body) return { loadOnly: 'too-long', detail: 'the request is too long to be rendered at once' }
  try {
    const prompt = render({ ...request, body })
    if (prompt === undefined) return { loadOnly: 'own-renderer', detail: 'its renderer does not know the request' }
    return { body: { model: request.model, prompt, add_special_tokens: false, is_rendered: true } }
  } catch {
    return { loadOnly: 'template-failed', detail: 'its renderer failed' }
  }
}

/** What SGLang's own route encodes: a text, or several, as its completions do. */
function asCompletion({ body, bytes }: PromptRequest): Shown | LoadOnly {
  if (!body) return { body, raw: bytes } // a long one is a completion already
  return whyMoreThanText(body) ?? { body: { model: body['model'], prompt: body['text'] } }
}

function isSame(one: PromptTokens | NoTokens, other: PromptTokens | NoTokens): boolean {
  if (!one.tokens || !other.tokens) return one.tokens === other.tokens
  if (one.tokens.length !== other.tokens.length || one.totalTokens !== other.totalTokens) return false
  const isEqual = Buffer.compare(bytesOf(one.tokens), bytesOf(other.tokens)) === 0
  return isEqual && one.blockMmInfos === undefined && other.blockMmInfos === undefined
}

function bytesOf({ buffer, byteOffset, byteLength }: Uint32Array): Uint8Array {
  return new Uint8Array(buffer, byteOffset, byteLength)
}
