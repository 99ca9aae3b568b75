/** Anthropic's `/v1/messages` as the chat that each engine makes of it: as recorded of vLLM 0.32.0 and SGLang 0.5.23. */
import { dumps } from '../template/spell.js'
import type { Value } from '../template/values.js'
import { billingHeader, contentTexts } from './chat-vllm.js'
import type { EngineRules, Message, TemplateHabits } from './converted.js'
import { isText, notTold } from './converted.js'
import { mediaError } from './media.js'
import type { Body } from './request.js'
import { asList, asRecord, LoadOnlyError, malformed } from './request.js'

export function convertMessages(body: Body, rules: EngineRules, habits: TemplateHabits): Body {
  const { dialect } = rules
  const given = asList(body['messages'], 'messages').map((it) => asRecord(it) ?? malformed('a message is an object'))
  const isSglang = dialect === 'sglang'
  const isLate = (message: Body): boolean => message['role'] === 'system'
  const isGathered = given.some(isLate) && !habits.takesLateSystem(dialect)
  const late = isGathered ? given.filter(isLate).map((it) => lateSystem(it, isSglang)) : []
  const system = [...systemParts(body['system'], isSglang), ...late.filter(isText)]
  const messages: Message[] = system.length > 0 ? [{ role: 'system', content: system.join(isSglang ? '\n' : '') }] : []
  for (const message of isGathered ? given.filter((it) => !isLate(it)) : given)
    messages.push(...(isSglang ? sglangMessages(message, rules) : vllmMessages(message)))
  const tools = toolsOf(body['tools'], isSglang)
  const kwargs = body['chat_template_kwargs']
  return {
    messages,
    ...(tools.length > 0 ? { tools, tool_choice: choiceOf(body['tool_choice']) } : {}),
    ...effortOf(body, rules, habits),
    ...(kwargs === undefined || isSglang ? {} : { chat_template_kwargs: kwargs }),
  }
}

function systemParts(system: Value, isSglang: boolean): string[] {
  if (typeof system === 'string') return (isSglang ? system.trim() : system) === '' ? [] : [system]
  return contentTexts(system).filter((text) => isText(text) && (isSglang || !text.startsWith(billingHeader)))
}

function lateSystem({ content }: Body, isSglang: boolean): string {
  const texts = contentTexts(content)
  if (isSglang)
    return texts
      .map((text) => text.trim())
      .filter(isText)
      .join('\n')
  return texts.filter((text) => !text.startsWith(billingHeader)).join('')
}

// ---- vLLM

function vllmMessages(message: Body): Message[] {
  const { role, content } = message
  if (role === 'system') {
    const text = lateSystem(message, false)
    return text === '' ? [] : [{ role, content: text }]
  }
  if (typeof content === 'string') return [{ role, content }]
  const results: Message[] = []
  const turn = newTurn()
  for (const block of blocksOf(content)) {
    if (block['type'] === 'tool_result' && role === 'user') results.push(vllmResult(block))
    else if (block['type'] === 'thinking') turn.thoughts.push((block['thinking'] as string | undefined) ?? '')
    else if (block['type'] === 'text' && !isText(block['text'])) continue
    else addBlock(turn, block)
  }
  const said = contentOf(turn.parts)
  if (role === 'user' && said === undefined) return results
  return [
    ...results,
    {
      role,
      ...(turn.thoughts.length > 0 ? { reasoning: turn.thoughts.join('') } : {}),
      ...(turn.calls.length > 0 ? { tool_calls: turn.calls } : {}),
      ...(said === undefined ? {} : { content: said }),
    },
  ]
}

function vllmResult(block: Body): Message {
  return { role: 'tool', tool_call_id: block['tool_use_id'] ?? '', content: contentTexts(block['content']).join('\n') }
}

// ---- SGLang

function sglangMessages({ role, content }: Body, { reasoningParser }: EngineRules): Message[] {
  if (typeof content === 'string') return [{ role, content }]
  const messages: Message[] = []
  const turn = newTurn()
  for (const block of blocksOf(content)) {
    const isThought = block['type'] === 'thinking' && isText(block['thinking'])
    if (isThought && reasoningParser !== null) notTold('how its reasoning parser writes thoughts')
    if (block['type'] === 'redacted_thinking' && role === 'assistant') malformed('SGLang takes no redacted thinking')
    if (block['type'] === 'thinking') continue // without a parser they are dropped
    if (block['type'] !== 'tool_result' || role !== 'user') {
      addBlock(turn, block)
      continue
    }
    // What was said before a result stays before it.
    const said = contentOf(turn.parts.splice(0))
    if (said !== undefined) messages.push({ role, content: said })
    messages.push({
      role: 'tool',
      tool_call_id: block['tool_use_id'] ?? block['id'] ?? '',
      content: sglangResult(block['content']),
    })
  }
  const said = contentOf(turn.parts)
  if (said === undefined && turn.calls.length === 0 && role === 'user') return messages
  const calls = turn.calls.length > 0 ? { tool_calls: turn.calls } : {}
  const isSilent = said === undefined && turn.calls.length === 0
  return [
    ...messages,
    { role, ...calls, ...(isSilent ? { content: '' } : said === undefined ? {} : { content: said }) },
  ]
}

function sglangResult(content: Value): Value {
  if (typeof content === 'string') return content
  const texts = contentTexts(content).filter(isText)
  return texts.length > 1 ? texts.map((text) => ({ type: 'text', text })) : (texts[0] ?? '')
}

// ---- both

interface Turn {
  readonly parts: { readonly type: 'text'; readonly text: Value }[]
  readonly calls: Value[]
  readonly thoughts: string[]
}

function newTurn(): Turn {
  return { parts: [], calls: [], thoughts: [] }
}

function blocksOf(content: Value): Body[] {
  return asList(content, 'content').map((block) => asRecord(block) ?? malformed('a content block is an object'))
}

function addBlock({ parts, calls }: Turn, block: Body): void {
  switch (block['type'] as string) {
    case 'text':
      parts.push({ type: 'text', text: block['text'] })
      break
    case 'tool_use':
      calls.push({
        id: block['id'],
        type: 'function',
        function: { name: block['name'], arguments: dumps(block['input'] ?? {}) },
      })
      break
    case 'tool_result': // of the assistant itself
      if (typeof block['content'] !== 'string')
        throw new LoadOnlyError('engine-settings', 'a result that an assistant brings, in parts')
      parts.push({ type: 'text', text: `Tool result: ${block['content']}` })
      break
    case 'redacted_thinking':
      break
    default:
      throw mediaError(String(block['type'] as string))
  }
}

/** A single text is said as such. */
function contentOf(parts: Turn['parts']): Value {
  return parts.length === 1 ? parts[0]!.text : parts.length === 0 ? undefined : [...parts]
}

function toolsOf(value: Value, isSglang: boolean): Value[] {
  if (value === undefined || value === null) return []
  return asList(value, 'tools').flatMap((entry) => {
    const tool = asRecord(entry) ?? malformed('a tool is an object')
    const { name, description, input_schema: parameters, strict, defer_loading: deferLoading } = tool
    const isServers = isSglang && parameters === undefined // it has no schema: the server would run it
    if (isServers) return []
    const deferred = deferLoading === undefined ? {} : { defer_loading: deferLoading }
    if (!isSglang) {
      const it = { name, description: description ?? null, parameters, strict: strict ?? null, ...deferred }
      return [{ type: 'function', function: it }]
    }
    const it = { name, description: description ?? '', parameters, strict: strict === true }
    return [{ type: 'function', function: it, ...deferred }]
  })
}

function choiceOf(value: Value): Value {
  const choice = asRecord(value)
  const type = choice?.['type']
  if (type === 'tool') return { type: 'function', function: { name: choice?.['name'] } }
  return type === 'none' ? 'none' : type === 'any' ? 'required' : 'auto'
}

function effortOf(body: Body, { dialect, reasoningParser }: EngineRules, habits: TemplateHabits): Body {
  const isSglang = dialect === 'sglang'
  const effort = asRecord(body['output_config'])?.['effort']
  const thinking = asRecord(body['thinking'])?.['type']
  if (isSglang && thinking !== undefined) {
    if (reasoningParser !== null) notTold('how its reasoning parser switches thinking')
    if (thinking !== 'disabled') malformed('SGLang thinks only with a reasoning parser')
  } else if (thinking === 'disabled') return { reasoning_effort: habits.effortOfNone() }
  if (effort === undefined || effort === null) return {}
  return { reasoning_effort: isSglang && effort === 'xhigh' ? 'max' : effort }
}
