/** `POST /v1/completions` of vLLM, whole and streamed: text, token ids, several prompts, echo. */
import type { Choice } from '../generation.js'
import { isSet, numberOf, objectOf } from './body.js'
import { EventStream } from './event-stream.js'
import type { Exchange, Json } from './exchange.js'
import { sendJson } from './exchange.js'
import { runGeneration } from './run-generation.js'
import { checkSampling, outputLimit, promptsOf, vllmBody, vllmModel, vllmRank } from './vllm-errors.js'
import { orcaHeader } from './vllm-load.js'
import type { AnswerHead } from './vllm-shapes.js'
import { completionChoice, countsOf, fingerprint, runningUsage, streamUsage, usage } from './vllm-shapes.js'
import { requestId, toSpec } from './vllm-spec.js'
import { prepareTransfer } from './vllm-transfer.js'

/** vLLM's default when a completion sets no limit. */
const outputTokensDefault = 16

export async function vllmCompletions(exchange: Exchange): Promise<void> {
  const { server } = exchange
  const body = await vllmBody(exchange)
  const { name, adapter } = vllmModel(server, body)
  const prompts = promptsOf(server, body)
  checkSampling(body)
  const asked = numberOf(body, 'max_tokens') ?? outputTokensDefault
  const longest = Math.max(...prompts.map(({ length }) => length))
  const asSpec = toSpec(exchange, body, prompts, { outputTokensMax: outputLimit(server, asked, longest), adapter })
  const head: AnswerHead = {
    id: `cmpl-${requestId(exchange, body)}`,
    created: Math.floor(server.unixSeconds()),
    model: name,
  }
  const rank = vllmRank(exchange)
  const stream = isSet(body, 'stream') ? streamSink(exchange, body, head, asSpec.choices) : undefined
  const transfer = await prepareTransfer(exchange, body, rank, prompts[0]!, { answer: head.id, suffix: '-0', stream })
  if (!transfer) return
  const generation = runGeneration(
    exchange,
    rank,
    { ...asSpec, ...transfer.spec, id: head.id },
    {
      token: (choice, token, text) => stream?.token(choice, token, text),
      end(choices) {
        const params = transfer.params(generation, choices) // a stream does not show them, but its blocks are held all the same
        if (stream) return stream.end(choices)
        const reply = wholeReply(exchange, body, head, choices, asSpec.choices)
        sendJson(exchange, 200, { ...reply, kv_transfer_params: params }, orcaHeader(exchange, rank))
      },
    },
  )
}

function wholeReply(
  exchange: Exchange,
  body: Json,
  head: AnswerHead,
  choices: readonly Choice[],
  perPrompt: number,
): Json {
  const { server } = exchange
  const echo = (choice: Choice): string =>
    isSet(body, 'echo') ? server.options.tokenizer.decode(choice.prompt.filter((token) => token > 2)) : ''
  return {
    id: head.id,
    object: 'text_completion',
    created: head.created,
    model: head.model,
    choices: choices.map((choice) => completionChoice(choice, echo(choice) + choice.text, body)),
    service_tier: null,
    system_fingerprint: fingerprint(server),
    usage: usage(server, countsOf(server, choices, perPrompt), false),
    kv_transfer_params: null,
    ec_transfer_params: null,
    metrics: null,
  }
}

function streamSink(exchange: Exchange, body: Json, head: AnswerHead, perPrompt: number) {
  const { server } = exchange
  const options = objectOf(body, 'stream_options') ?? {}
  const isUsageWanted = isSet(options, 'include_usage')
  const isContinuous = isUsageWanted && isSet(options, 'continuous_usage_stats')
  const isTokensWanted = isSet(body, 'return_token_ids')
  const stream = new EventStream(server, exchange.response)
  stream.open()
  const frame = `{"id":${JSON.stringify(head.id)},"object":"text_completion","created":${head.created},"model":${JSON.stringify(head.model)},"choices":[`
  const print = `,"system_fingerprint":${JSON.stringify(fingerprint(server))}`
  const chunk = (choice: Choice, text: string, tokens: string, tail: string): void => {
    const promptIds = isTokensWanted && choice.tokens.length === 1 ? JSON.stringify(choice.prompt) : 'null'
    const running = isContinuous
      ? `,"usage":${JSON.stringify(runningUsage(choice.prompt.length, choice.tokens.length))}`
      : ''
    stream.data(
      `${frame}{"index":${choice.index},"text":${JSON.stringify(text)},"logprobs":null,"finish_reason":${JSON.stringify(choice.reason ?? null)},"stop_reason":${JSON.stringify(choice.stopReason)},"prompt_token_ids":${promptIds},"token_ids":${tokens}}]${running}${tail}}`,
    )
  }
  return {
    events: stream,
    token(choice: Choice, token: number, text: string): void {
      const tail = choice.reason !== undefined && !isUsageWanted ? print : ''
      chunk(choice, text, isTokensWanted ? `[${token}]` : 'null', tail)
    },
    end(choices: readonly Choice[]): void {
      for (const choice of choices) if (choice.reason === 'abort') chunk(choice, '', 'null', isUsageWanted ? '' : print)
      if (isUsageWanted)
        stream.data(
          `${frame}],"usage":${JSON.stringify(streamUsage(server, countsOf(server, choices, perPrompt), false))}${print}}`,
        )
      stream.data('[DONE]')
      stream.end()
    },
  }
}
