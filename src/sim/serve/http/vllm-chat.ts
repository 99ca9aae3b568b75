/** `POST /v1/chat/completions` of vLLM, whole and streamed. */
import type { Choice } from '../generation.js'
import { isSet, numberOf, objectOf } from './body.js'
import { EventStream } from './event-stream.js'
import type { Exchange, Json } from './exchange.js'
import { sendJson } from './exchange.js'
import { runGeneration } from './run-generation.js'
import { checkSampling, outputLimit, vllmBody, vllmModel, vllmRank } from './vllm-errors.js'
import { orcaHeader } from './vllm-load.js'
import type { AnswerHead } from './vllm-shapes.js'
import { chatChoice, countsOf, fingerprint, logprob, runningUsage, streamUsage, usage } from './vllm-shapes.js'
import { chatPrompt, chatText, requestId, toSpec } from './vllm-spec.js'
import { prepareTransfer } from './vllm-transfer.js'

export async function vllmChat(exchange: Exchange): Promise<void> {
  const { server } = exchange
  const body = await vllmBody(exchange)
  const { name, adapter } = vllmModel(server, body)
  const prompt = chatPrompt(exchange, body)
  checkSampling(body)
  const asked = numberOf(body, 'max_completion_tokens') ?? numberOf(body, 'max_tokens')
  const asSpec = toSpec(exchange, body, [prompt], {
    outputTokensMax: outputLimit(server, asked, prompt.length),
    adapter,
  })
  const head: AnswerHead = {
    id: `chatcmpl-${requestId(exchange, body)}`,
    created: Math.floor(server.unixSeconds()),
    model: name,
  }
  const rank = vllmRank(exchange)
  const stream = isSet(body, 'stream') ? streamSink(exchange, body, head, prompt) : undefined
  const transfer = await prepareTransfer(exchange, body, rank, prompt, { answer: head.id, suffix: '', stream })
  if (!transfer) return
  const generation = runGeneration(
    exchange,
    rank,
    { ...asSpec, ...transfer.spec, id: head.id },
    {
      token: (choice, token, text) => stream?.token(choice, token, text),
      end(choices) {
        const params = transfer.params(generation, choices) // a stream does not show them, but its blocks are held all the same
        if (stream) stream.end(choices)
        else sendJson(exchange, 200, wholeReply(exchange, body, head, choices, params), orcaHeader(exchange, rank))
      },
    },
  )
}

function wholeReply(
  exchange: Exchange,
  body: Json,
  head: AnswerHead,
  choices: readonly Choice[],
  params: Json | null,
): Json {
  const { server } = exchange
  return {
    id: head.id,
    object: 'chat.completion',
    created: head.created,
    model: head.model,
    choices: choices.map((choice) => chatChoice(server.options.tokenizer, choice, body)),
    service_tier: null,
    system_fingerprint: fingerprint(server),
    usage: usage(server, countsOf(server, choices, choices.length), true),
    prompt_logprobs: null,
    prompt_token_ids: isSet(body, 'return_token_ids') ? choices[0]!.prompt : null,
    prompt_text: isSet(body, 'return_prompt_text') ? chatText(exchange, body) : null,
    kv_transfer_params: params,
    ec_transfer_params: null,
    metrics: null,
  }
}

function streamSink(exchange: Exchange, body: Json, head: AnswerHead, prompt: readonly number[]) {
  const { server } = exchange
  const options = objectOf(body, 'stream_options') ?? {}
  const isUsageWanted = isSet(options, 'include_usage')
  const isContinuous = isUsageWanted && isSet(options, 'continuous_usage_stats')
  const isTokensWanted = isSet(body, 'return_token_ids')
  const stream = new EventStream(server, exchange.response)
  stream.open()
  const frame = `{"id":${JSON.stringify(head.id)},"object":"chat.completion.chunk","created":${head.created},"model":${JSON.stringify(head.model)},"choices":[`
  const usageText = (completion: number): string =>
    isContinuous ? `,"usage":${JSON.stringify(runningUsage(prompt.length, completion))}` : ''
  const print = `,"system_fingerprint":${JSON.stringify(fingerprint(server))}`

  const first = (choice: Choice): void => {
    const promptIds = isTokensWanted ? JSON.stringify(prompt) : 'null'
    const text = isSet(body, 'return_prompt_text') ? JSON.stringify(chatText(exchange, body)) : 'null'
    stream.data(
      `${frame}{"index":${choice.index},"delta":{"role":"assistant","content":""},"logprobs":null,"finish_reason":null}]${usageText(0)},"prompt_token_ids":${promptIds},"prompt_text":${text}}`,
    )
  }
  return {
    events: stream,
    token(choice: Choice, token: number, text: string): void {
      if (choice.tokens.length === 1) first(choice)
      const isLast = choice.reason !== undefined
      const logprobs = isSet(body, 'logprobs')
        ? JSON.stringify({ content: [logprob(server.options.tokenizer, token, body)] })
        : 'null'
      const reason = isLast
        ? `${JSON.stringify(choice.reason)},"stop_reason":${JSON.stringify(choice.stopReason)}`
        : 'null'
      stream.data(
        `${frame}{"index":${choice.index},"delta":{"content":${JSON.stringify(text)}},"logprobs":${logprobs},"finish_reason":${reason},"token_ids":${isTokensWanted ? `[${token}]` : 'null'}}]${usageText(choice.tokens.length)}${isLast && !isUsageWanted ? print : ''}}`,
      )
    },
    end(choices: readonly Choice[]): void {
      for (const choice of choices) {
        // Ended from outside, without a last token of its own.
        if (choice.reason !== 'abort') continue
        if (choice.tokens.length === 0) first(choice)
        stream.data(
          `${frame}{"index":${choice.index},"delta":{"content":""},"logprobs":null,"finish_reason":"abort","stop_reason":null,"token_ids":null}]${isUsageWanted ? '' : print}}`,
        )
      }
      if (isUsageWanted)
        stream.data(
          `${frame}],"usage":${JSON.stringify(streamUsage(server, countsOf(server, choices, choices.length), true))}${print}}`,
        )
      stream.data('[DONE]')
      stream.end()
    },
  }
}
