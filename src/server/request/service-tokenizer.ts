/** The token service as a model's tokenizer: which of its routes a request takes, and what to do when it has no tokens. */
import type { Body, Route, TokenService } from '../../tokens/index.js'
import { Tokens } from '../../tokens/index.js'
import type { Endpoint } from './endpoints.js'
import type { PromptTokenizer } from './prompt.js'

const routes: Readonly<Partial<Record<Endpoint, Route>>> = {
  chat_completions: 'chat',
  completions: 'completions',
  responses: 'responses',
  anthropic_messages: 'messages',
}

/** Routes whose answers count the prompt as the engine computes it; the others leave out what was cached, or add what tools did. */
const counts: ReadonlySet<Route> = new Set<Route>(['chat', 'completions'])

export interface ServiceTokenizerOptions {
  /** The name under which the service knows the model. */
  readonly model: string
  /** How long a request waits for its tokens before it goes by its bytes. */
  readonly deadlineMs?: number
}

/** Where the service cannot know the tokens (media, no tokenizer, too slow) the prompt's bytes are used. */
export function createServiceTokenizer(service: TokenService, options: ServiceTokenizerOptions): PromptTokenizer {
  const { model, deadlineMs = 5_000 } = options
  return {
    async tokenize({ row, blockSize, body, bytes, signal }) {
      const route = routes[row.endpoint]
      if (!route) return undefined
      const result = await service.tokenizeRequest(model, route, body as Body | undefined, {
        raw: bytes,
        signal,
        deadlineMs,
      })
      if (!(result instanceof Tokens)) return undefined
      return {
        tokens: result.ids,
        isExact: true,
        totalTokens: result.totalCount,
        counted:
          counts.has(route) && result.source !== 'request'
            ? (engines) => service.counted(model, result.totalCount, engines)
            : undefined,
        blockMmInfos: result.mediaByBlock(blockSize),
        templateMs: result.took?.templateMs,
        tokenizeMs: result.took?.encodeMs,
        hash: (scheme, hasher) => result.blockHashes(scheme, hasher),
        hashAhead: result.isLong ? (scheme, hasher) => result.hashAhead(scheme, hasher) : undefined,
      }
    },
  }
}
