/** Anthropic's `/v1/messages` as the chat that each engine makes of it: as recorded of vLLM 0.32.0 and SGLang 0.5.23. */
import { merged } from '../../core/protocol/index.js'
import { dumps, str } from '../template/spell.js'
import type { Value } from '../template/values.js'
import { isTrue } from '../template/values.js'
import { billingHeader, contentTexts } from './chat-vllm.js'
import type { EngineRules, Message, TemplateHabits } from './converted.js'
import { isText, notTold } from './converted.js'
import { mediaError } from './media.js'
import { reasoningParserOf } from './reasoning-parsers.js'
import type { Body } from './request.js'
import { asList, asRecord, asSwitch, asValue, LoadOnlyError, malformed } from './request.js'

export function convertMessages(body: Body, rules: EngineRules, habits: TemplateHabits): Body {
  const { dialect } = rules
  const given = asList(body['messages'], 'messages').map((it) => asRecord(it) ?? malformed('a message is an object'))
  const isSglang = dialect === 'sglang'
  const isLate = (message: Body): boolean => message['role'] === 'system'
  const isGathered = given.some(isLate) && !habits.takesLateSystem(dialect)
  const late = isGathered ? given.filter(isLate).map((it) => lateSystem(it, isSglang)) : []
  const system = [...systemParts(body['system'], isSglang), ...late.filter(isText)]
  const messages: Message[] = system.length > 0 ? [{ role: 'system', content: system.join(isSglang ? '\n' : '') }] : []
  let hasField: boolean | undefined // asked once, however many turns think
  const takesThoughts = (): boolean => (hasField ??= habits.takesThoughts())
  for (const message of isGathered ? given.filter((it) => !isLate(it)) : given)
    messages.push(...(isSglang ? sglangMessages(message, rules, takesThoughts) : vllmMessages(message)))
  const tools = toolsOf(body['tools'], isSglang)
  const kwargs = body['chat_template_kwargs']
  return {
    messages,
    ...(tools === undefined ? {} : { tools, tool_choice: choiceOf(body['tool_choice']) }),
    ...(isSglang ? sglangThinking(body, rules, habits) : vllmThinking(body, habits)),
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
    if (block['type'] === 'tool_result' && role === 'user') results.push(...vllmResults(block))
    else if (block['type'] === 'thinking')
      turn.thoughts.push(...(typeof block['thinking'] === 'string' ? [block['thinking']] : []))
    else if (block['type'] === 'tool_reference' || (block['type'] === 'text' && !isText(block['text']))) continue
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

/** Its texts; what it refers to follows as a result of its own, and all else is left out. */
function vllmResults(block: Body): Message[] {
  const { content } = block
  const id = block['tool_use_id'] ?? ''
  const parts = Array.isArray(content) ? (content as readonly Value[]).map((part) => asRecord(part) ?? {}) : []
  if (parts.some(({ type }) => type === 'image')) throw mediaError('image')
  const said = Array.isArray(content) ? parts.filter(({ type }) => type === 'text') : content
  const referred = parts.flatMap(({ type, tool_name: name, name: other }) => {
    const called = isText(name) ? name : other
    return type === 'tool_reference' && isText(called) ? [{ type, name: called }] : []
  })
  const result = { role: 'tool', tool_call_id: id, content: contentTexts(said as Value).join('\n') }
  return referred.length === 0 ? [result] : [result, { role: 'tool', tool_call_id: id, content: referred }]
}

function vllmThinking(body: Body, habits: TemplateHabits): Body {
  const effort = asRecord(body['output_config'])?.['effort']
  const thinking = asRecord(body['thinking'])?.['type']
  if (thinking === 'disabled') return { reasoning_effort: habits.effortOfNone() }
  return effort === undefined || effort === null ? {} : { reasoning_effort: effort }
}

// ---- SGLang

function sglangMessages(
  { role, content }: Body,
  rules: EngineRules,
  takesThoughts: TemplateHabits['takesThoughts'],
): Message[] {
  if (typeof content === 'string') return [{ role, content }]
  const messages: Message[] = []
  const turn = newTurn()
  const blocks = blocksOf(content)
  const thoughts = role === 'assistant' ? sglangThoughts(blocks, rules, takesThoughts) : undefined
  if (thoughts?.text !== undefined) turn.parts.push({ type: 'text', text: thoughts.text })
  for (const block of blocks) {
    if (block['type'] === 'thinking' || block['type'] === 'tool_reference') continue
    if (block['type'] !== 'tool_result' || role !== 'user') {
      addSglangBlock(turn, block)
      continue
    }
    // What was said before a result stays before it.
    const said = contentOf(turn.parts.splice(0))
    if (said !== undefined) messages.push({ role, content: said })
    const id = isText(block['tool_use_id']) ? block['tool_use_id'] : (block['id'] ?? '')
    for (const result of sglangResult(block['content']).contents)
      messages.push({ role: 'tool', tool_call_id: id, content: result })
  }
  const said = contentOf(turn.parts)
  if (said === undefined && turn.calls.length === 0 && role === 'user') return messages
  const calls = turn.calls.length > 0 ? { tool_calls: turn.calls } : {}
  const isSilent = said === undefined && turn.calls.length === 0
  return [
    ...messages,
    {
      role,
      ...thoughts?.fields,
      ...calls,
      ...(isSilent ? { content: '' } : said === undefined ? {} : { content: said }),
    },
  ]
}

/** What an assistant thought stands before all that it said, wherever it thought it. Without a parser it is dropped. */
function sglangThoughts(
  blocks: readonly Body[],
  { reasoningParser }: EngineRules,
  takesThoughts: TemplateHabits['takesThoughts'],
): { readonly fields?: Message; readonly text?: string } {
  if (blocks.some(({ type }) => type === 'redacted_thinking')) malformed('SGLang takes no redacted thinking')
  const thoughts = blocks.flatMap(({ type, thinking }) => (type === 'thinking' && isText(thinking) ? [thinking] : []))
  if (thoughts.length === 0 || reasoningParser === null) return {}
  const { start, end } = reasoningParserOf(reasoningParser) ?? notTold('how its reasoning parser writes thoughts')
  const text = thoughts.join('\n')
  return takesThoughts() ? { fields: { reasoning_content: text } } : { text: `${start}${text}\n${end}` }
}

/** Its switch and the effort are arguments of the template, and do not imply each other as they do in a chat. */
function sglangThinking(body: Body, { reasoningParser }: EngineRules, habits: TemplateHabits): Body {
  const effort = asRecord(body['output_config'])?.['effort'] ?? undefined
  const thinking = asRecord(body['thinking'])?.['type']
  const kwargs = {
    ...(thinking === undefined ? {} : sglangSwitch(thinking !== 'disabled', reasoningParser, habits)),
    ...(effort === undefined ? {} : { reasoning_effort: effort === 'xhigh' ? 'max' : effort }),
    ...(effort === 'low' && habits.hasLowEffort() ? { low_effort: true } : {}),
  }
  return Object.keys(kwargs).length === 0 ? {} : { chat_template_kwargs: kwargs }
}

function sglangSwitch(isOn: boolean, reasoningParser: EngineRules['reasoningParser'], habits: TemplateHabits): Body {
  if (reasoningParser === null) return isOn ? malformed('SGLang thinks only with a reasoning parser') : {}
  const parser = reasoningParserOf(reasoningParser) ?? notTold('how its reasoning parser switches thinking')
  const name = habits.thinkingSwitch() ?? parser.thinkingSwitch
  switch (name) {
    case 'always':
      return isOn ? {} : malformed('this model always thinks')
    case 'none':
      return isOn ? malformed('this model does not think') : {}
    case 'effort':
      return { reasoning_effort: isOn ? 'medium' : 'none' }
    case 'enable_thinking':
    case 'thinking':
      return { [name]: isOn }
  }
}

function addSglangBlock(turn: Turn, block: Body): void {
  if (block['type'] === 'search_result') {
    const text = searchText(block)
    if (text !== '') turn.parts.push({ type: 'text', text })
  } else if (block['type'] === 'tool_result')
    turn.parts.push({ type: 'text', text: `Tool result: ${sglangResult(block['content']).text}` })
  else addBlock(turn, block)
}

/** A result's messages, in which references stand apart from texts; and its texts alone. */
function sglangResult(content: Value): { readonly contents: readonly Value[]; readonly text: string } {
  if (!Array.isArray(content)) {
    const text = typeof (content ?? '') === 'string' ? ((content ?? '') as string) : malformed('a result is a text')
    return { contents: [text], text }
  }
  const groups: Body[][] = []
  for (const part of blocksOf(content).flatMap(resultPart)) {
    const last = groups.at(-1)
    if (last && last[0]?.['type'] === part['type']) last.push(part)
    else groups.push([part])
  }
  const contents = groups.map((group) => (group.length === 1 ? (group[0]!['text'] ?? group) : group))
  const texts = groups.flat().flatMap(({ text }) => (text === undefined ? [] : [text as string]))
  return { contents: contents.length === 0 ? [''] : contents, text: texts.join('\n') }
}

const silentParts = new Set<Value>(['thinking', 'redacted_thinking', 'tool_use', 'tool_result'])

function resultPart(part: Body): Body[] {
  const { type, text, tool_name: toolName, name } = part
  if (silentParts.has(type)) return []
  if (type === 'tool_reference') {
    const called = isText(toolName) ? toolName : name
    return isText(called) ? [{ type, name: called }] : []
  }
  const said = type === 'search_result' ? searchText(part) : contentTexts([{ type, text }])[0]
  return isText(said) ? [{ type: 'text', text: said }] : []
}

/** What a search found, as SGLang tells a model of it. */
function searchText({ title, source, content }: Body): string {
  const from = asRecord(source)
  const place = from ? (isText(from['url']) ? from['url'] : from['text']) : source
  const parts = Array.isArray(content) ? (content as readonly Value[]).map(asRecord) : []
  const found = parts.flatMap((part) => (part?.['type'] === 'text' && isText(part['text']) ? [part['text']] : []))
  return [
    ...(isText(title) ? [`Title: ${title}`] : []),
    ...(isText(place) ? [`Source: ${place}`] : []),
    ...(found.length > 0 ? [`Content: ${found.join('\n')}`] : []),
  ].join('\n')
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
      if (!isText(block['id']))
        throw new LoadOnlyError('engine-settings', 'a call without an id, which the engine makes up')
      calls.push({
        id: block['id'],
        type: 'function',
        function: { name: block['name'] ?? '', arguments: dumps(block['input'] ?? {}) },
      })
      break
    case 'tool_result': // of the assistant itself; Python spells its parts
      parts.push({ type: 'text', text: `Tool result: ${isTrue(block['content']) ? str(block['content']) : ''}` })
      break
    case 'redacted_thinking':
      break
    default:
      throw mediaError(block['type'])
  }
}

/** A single text is said as such. */
function contentOf(parts: Turn['parts']): Value {
  return parts.length === 1 ? parts[0]!.text : parts.length === 0 ? undefined : [...parts]
}

/** Undefined: the template sees none. An empty list is one to vLLM's templates, which may ask for more than its items. */
function toolsOf(value: Value, isSglang: boolean): Value[] | undefined {
  if (value === undefined || value === null) return undefined
  const tools = asList(value, 'tools').flatMap((entry) => {
    const tool = asRecord(entry) ?? malformed('a tool is an object')
    const { name, description, input_schema: parameters, strict, defer_loading: deferLoading } = tool
    if (isSglang && typeof tool['type'] === 'string' && serversTool.test(tool['type'])) return [] // it would run it
    if (isSglang && !asRecord(parameters)) malformed('a tool has a schema')
    const deferred =
      deferLoading === undefined ? {} : { defer_loading: asSwitch(deferLoading, 'defer_loading') ?? null }
    if (!isSglang) {
      const it = {
        name,
        description: description ?? null,
        parameters: typedSchema(parameters),
        strict: asSwitch(strict, 'strict') ?? null,
        ...deferred,
      }
      return [{ type: 'function', function: it }]
    }
    const isStrict = asSwitch(strict, 'strict') ?? false
    const it = { name, description: description ?? '', parameters: typedSchema(parameters), strict: isStrict }
    return [{ type: 'function', function: it, ...deferred }]
  })
  return isSglang && tools.length === 0 ? undefined : tools
}

const serversTool = /^(web_search|computer|bash|text_editor)_/

/** Both take a schema without a type for an object's. */
function typedSchema(schema: Value): Value {
  if (schema instanceof Map)
    return schema.has('type') ? schema : new Map([...(schema as Map<Value, Value>), ['type', 'object']])
  const it = asRecord(schema)
  return it && !Object.hasOwn(it, 'type') ? asValue(merged(it, { type: 'object' })) : schema
}

function choiceOf(value: Value): Value {
  const choice = asRecord(value)
  const type = choice?.['type']
  if (type === 'tool') return { type: 'function', function: { name: choice?.['name'] } }
  return type === 'none' ? 'none' : type === 'any' ? 'required' : 'auto'
}
