/** Do we know the tokens that the engine sees? Three small chats: our tokens against its count, and against its events. */
import type { ModelStatus, TokenService } from '../../tokens/index.js'
import { Tokens, whyThoughtsUnknown } from '../../tokens/index.js'
import type { Ear } from './ear.js'
import type { Finding } from './finding.js'
import type { Patient } from './patient.js'
import { generate } from './patient.js'

const storeMs = 2_000
const words = 'the tide turns twice a day and the harbour master writes it down '

const tokenizerFix = "--tokenizer <folder with the model's tokenizer.json>"

type Chat = Readonly<Record<string, unknown>>

/** New every time, so that nothing of it is cached and all of it must be stored. */
function chats(): { readonly name: string; readonly chat: Chat }[] {
  const salt = crypto.randomUUID()
  const user = (text: string) => ({ role: 'user', content: `${salt} ${text} ${words.repeat(8)}` })
  const parameters = { type: 'object', properties: { city: { type: 'string' } }, required: ['city'] }
  const tool = { type: 'function', function: { name: 'weather', description: 'Weather of a city', parameters } }
  return [
    { name: 'plain chat', chat: { messages: [user('plain')] } },
    { name: 'chat with tools', chat: { messages: [user('tools')], tools: [tool] } },
    {
      name: 'chat of several turns',
      chat: {
        messages: [
          { role: 'system', content: `You are brief. ${salt}` },
          user('first'),
          { role: 'assistant', content: 'Twice a day.' },
          user('second'),
        ],
      },
    },
  ]
}

export async function tokenParity(
  patient: Patient,
  service: TokenService,
  status: ModelStatus,
  ear: Ear | undefined,
  blockSize: number,
): Promise<Finding[]> {
  const check = 'tokenizer'
  if (status.source === 'none')
    return [
      {
        check,
        verdict: 'fail',
        reason: ['no tokenizer knows its prompts', ...(status.trouble ? [status.trouble] : []), ...status.tried].join(
          '; ',
        ),
        fix: 'warmroute serve --tokenizer <folder>',
      },
    ]
  const findings: Finding[] = [
    status.source === 'engine'
      ? {
          check,
          verdict: 'warn',
          reason:
            status.asks === 'ends'
              ? 'the engine is asked for the new end of every prompt, which costs a call per request'
              : 'the engine is asked for tokens, which costs a call per request',
          fix: tokenizerFix,
        }
      : { check, verdict: 'pass', reason: `${status.source}, ${status.encoder} encoder` },
  ]
  for (const { name, chat } of chats()) findings.push(await compare(patient, service, ear, blockSize, name, chat))
  const { unaskable } = service.status(patient.model) // only now is it known whether it renders
  if (unaskable !== undefined)
    findings.push({
      check,
      verdict: 'warn',
      reason: `the engine cannot be asked for ${unaskable}: those are routed by load`,
      fix: tokenizerFix,
    })
  const { kind, reasoningParser } = patient.facts
  const unknown = kind.value === 'sglang' ? whyThoughtsUnknown(reasoningParser?.value) : undefined
  if (unknown !== undefined)
    findings.push({
      check,
      verdict: 'warn',
      reason: `messages that hold thoughts or switch thinking are routed by load: ${unknown}`,
    })
  return findings
}

async function compare(
  patient: Patient,
  service: TokenService,
  ear: Ear | undefined,
  blockSize: number,
  check: string,
  chat: Chat,
): Promise<Finding> {
  const { signal, model } = patient
  const ours = await service.tokenizeRequest(model, 'chat', { model, ...chat } as never, { signal, deadlineMs: 10_000 })
  if (!(ours instanceof Tokens)) return { check, verdict: 'warn', reason: `our tokens: ${ours.detail}` }
  const { status, text, promptTokens } = await generate(patient, '/v1/chat/completions', chat, 0)
  if (status !== 200) return { check, verdict: 'warn', reason: `the engine answered ${status}: ${text.slice(0, 100)}` }
  if (promptTokens !== undefined && promptTokens !== ours.ids.length)
    return {
      check,
      verdict: 'fail',
      reason: `the engine counts ${promptTokens} tokens, we count ${ours.ids.length}`,
      fix: 'give the tokenizer folder of exactly this model: --tokenizer <folder>',
    }
  if (!ear) return { check, verdict: 'pass', reason: `${ours.ids.length} tokens by both counts` }
  const store = await ear.heard((it) => liesIn(it.tokens, ours.ids, blockSize), storeMs, signal)
  return store
    ? { check, verdict: 'pass', reason: `${ours.ids.length} tokens, and the engine stored the same ones` }
    : {
        check,
        verdict: 'fail',
        reason: 'the engine stored other tokens than ours',
        fix: 'give the tokenizer folder of exactly this model: --tokenizer <folder>',
      }
}

/** A store holds whole blocks of the prompt; earlier blocks may have been cached already. */
function liesIn(stored: Uint32Array, prompt: Uint32Array, blockSize: number): boolean {
  if (stored.length < blockSize) return false
  for (let from = 0; from + stored.length <= prompt.length; from += blockSize)
    if (stored.every((token, at) => token === prompt[from + at])) return true
  return false
}
