/**
 * Whether a template walks over the parts of a message's content itself (`openai`) or wants it as one string (`string`).
 * Engines look at the template to find out, and shape every message by the answer; so do we, by the same sign: a loop over `content`.
 */
import type { Node } from '../template/node.js'

export type ContentFormat = 'string' | 'openai'

export function detectContentFormat(template: Node): ContentFormat {
  // Names that stand for some message's content: `{% set content = message.content %}`.
  const names = new Set<string>()
  let isWalked = false
  visit(template)
  return isWalked ? 'openai' : 'string'

  function visit(node: unknown): void {
    if (Array.isArray(node)) {
      for (const item of node as unknown[]) visit(item)
      return
    }
    if (node instanceof Map) {
      for (const [key, value] of node as Map<unknown, unknown>) {
        visit(key)
        visit(value)
      }
      return
    }
    if (typeof node !== 'object' || node === null) return
    const it = node as Node
    if (it.type === 'Set' && isContent(it['value'])) {
      const target = it['assignee'] as Node
      if (target.type === 'Identifier') names.add(target['value'] as string)
    }
    if (it.type === 'For') {
      const iterable = it['iterable'] as Node
      if (isContent(iterable.type === 'SelectExpression' ? iterable['lhs'] : iterable)) isWalked = true
    }
    for (const value of Object.values(it)) visit(value)
  }

  function isContent(node: unknown): boolean {
    const it = node as Node | null | undefined
    if (it?.type === 'Identifier') return names.has(it['value'] as string)
    if (it?.type === 'FilterExpression') return isContent(it['operand'])
    if (it?.type !== 'MemberExpression') return false
    return (it['property'] as Node)['value'] === 'content'
  }
}
