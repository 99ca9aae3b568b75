/**
 * Whether a template walks over the parts of a message's content itself (`openai`) or wants it as one string (`string`). Engines look at
 * the template to find out and shape every message by the answer, so what counts is the signs that each of them knows, and not what the
 * template would do: a loop over the same content is seen under one name and missed under another. Follows vLLM 0.32.0 and SGLang 0.5.23.
 */
import type { Node } from '../template/node.js'
import { eachNode, listOf, nameOf } from '../template/node.js'
import type { Dialect } from './request.js'

export type ContentFormat = 'string' | 'openai'

/** What each engine takes a template for; TensorRT-LLM, whose rules are not known, as vLLM does. */
export type ContentFormats = Readonly<Record<Dialect, ContentFormat>>

export function detectContentFormats(source: string, template: Node): ContentFormats {
  const vllm = detectAsVllm(template)
  return { vllm, sglang: detectAsSglang(source, template), trtllm: vllm }
}

/** Words that make a template one for media, wherever they stand. */
const mediaWords = ['image', 'audio', 'video', 'vision']
const messageNames = ['message', 'msg', 'm']

function detectAsSglang(source: string, template: Node): ContentFormat {
  if (mediaWords.some((word) => source.includes(word))) return 'openai'
  const isWalked = nodesOf(template, 'For').some((loop) =>
    messageNames.some((name) => leadsTo(iterableOf(loop), name, 'content')),
  )
  return isWalked ? 'openai' : 'string'
}

/** A loop over the content of what a loop over `messages` hands on, over something called `content`, or over what a macro is given as one. */
function detectAsVllm(template: Node): ContentFormat {
  const loops = nodesOf(template, 'For')
  const messages = loopNames(loops, namesOfMessages(nodesOf(template, 'Set')))
  if (!messages) return 'string'
  const isContent = (node: Node): boolean => [...messages].some((name) => leadsTo(node, name, 'content'))
  const calls = callsIn(template)
  const inMacros = new Set<Node>()
  let isWalked = loops.some((loop) => isContent(iterableOf(loop)))
  for (const macro of nodesOf(template, 'Macro')) {
    const given = contentParameters(macro, calls, isContent)
    for (const loop of nodesOf(macro, 'For')) {
      inMacros.add(loop)
      if (given.has(identifierOf(iterableOf(loop)) ?? '')) isWalked = true
    }
  }
  isWalked ||= loops.some((loop) => !inMacros.has(loop) && identifierOf(iterableOf(loop)) === 'content')
  return isWalked ? 'openai' : 'string'
}

/** `messages`, and the names of what is set to them or to some of them. Undefined: vLLM gives up looking. */
function namesOfMessages(sets: readonly Node[]): Set<string> | undefined {
  const names = new Set(['messages'])
  for (const name of names)
    for (const set of sets) {
      if (!set['value'] || !leadsTo(set['value'] as Node, name)) continue
      const target = identifierOf(set['assignee'] as Node)
      if (target === undefined) return undefined
      names.add(target) // and is walked over in its turn
    }
  return names
}

/** What loops over messages call one of them. */
function loopNames(loops: readonly Node[], messages: ReadonlySet<string> | undefined): Set<string> | undefined {
  const names = new Set<string>()
  for (const loop of loops) {
    if (![...(messages ?? [])].some((name) => leadsTo(iterableOf(loop), name))) continue
    const name = identifierOf(loop['loopvar'] as Node)
    if (name === undefined) return undefined
    names.add(name)
  }
  return messages && names
}

/** Parameters of a macro that some call gives a message's content. */
function contentParameters(macro: Node, calls: readonly Node[], isContent: (node: Node) => boolean): Set<string> {
  const names = listOf(macro, 'args').map((it) => nameOf(it.type === 'Identifier' ? it : it['key']))
  const given = new Set<string>()
  for (const call of calls) {
    if (identifierOf(call['callee'] as Node) !== nameOf(macro['name'])) continue
    for (const [at, it] of listOf(call, 'args').entries()) {
      const isNamed = it.type === 'KeywordArgumentExpression'
      const name = isNamed ? nameOf(it['key']) : names[at]
      if (name !== undefined && names.includes(name) && isContent(isNamed ? (it['value'] as Node) : it)) given.add(name)
    }
  }
  return given
}

/** Whether an expression is the name (or its `key`), a slice of it, or what filters and tests make of it. */
function leadsTo(node: Node, name: string, key?: string): boolean {
  if (node.type === 'FilterExpression' || node.type === 'TestExpression')
    return leadsTo(node['operand'] as Node, name, key)
  if (node.type !== 'MemberExpression') return key === undefined && identifierOf(node) === name
  const [object, property] = [node['object'] as Node, node['property'] as Node]
  if (property.type === 'SliceExpression') return leadsTo(object, name, key)
  const isLabel = node['computed'] ? property.type === 'StringLiteral' : true
  return key !== undefined && isLabel && nameOf(property) === key && identifierOf(object) === name
}

function iterableOf(loop: Node): Node {
  const iterable = loop['iterable'] as Node
  return iterable.type === 'SelectExpression' ? (iterable['lhs'] as Node) : iterable
}

function identifierOf(node: Node): string | undefined {
  return node.type === 'Identifier' ? nameOf(node) : undefined
}

function nodesOf(root: Node, type: string): Node[] {
  const found: Node[] = []
  eachNode(root['body'], (node) => {
    if (node.type === type) found.push(node)
  })
  return found
}

/** Calls of functions; a filter with arguments looks like one. */
function callsIn(root: Node): Node[] {
  const found: Node[] = []
  eachNode(root['body'], (node, role) => {
    if (node.type === 'CallExpression' && role !== 'label') found.push(node)
  })
  return found
}
