/**
 * How SGLang switches a template's thinking on and off. It looks for signs in the template's text rather than trying it out, so what
 * counts is which signs it knows (0.5.23), in this order; not what the template would do.
 */
import type { Node } from '../template/node.js'
import { eachNode, nameOf } from '../template/node.js'
import type { ThinkingSwitch } from './reasoning-parsers.js'

export interface ShownSwitch {
  /** Undefined: the template shows none, and the reasoning parser has its own. */
  readonly thinkingSwitch: ThinkingSwitch | undefined
  /** A low effort is said by an argument besides. */
  readonly hasLowEffort: boolean
}

export function shownSwitch(source: string, parsed: Node): ShownSwitch {
  const has = (...texts: readonly string[]): boolean => texts.every((text) => source.includes(text))
  const isLow = has('low_effort', 'truncate_history_thinking')
  const only = (thinkingSwitch: ThinkingSwitch | undefined): ShownSwitch => ({ thinkingSwitch, hasLowEffort: false })
  const isAlways =
    has('<ifm|think>', '<ifm|think_fast>', 'reasoning_effort') ||
    has('<|channel|>') ||
    (has('<|im_start|>assistant\\n<think>\\n') && !has('thinking')) ||
    (has('[gMASK]<sop>', 'Reasoning Effort:', '<tool_call>', '<arg_key>', '<arg_value>') && !has('enable_thinking'))
  if (isAlways) return only('always')
  if (has('reasoning_effort', '[THINK]')) return only('effort')
  if (has('reasoning_effort', 'reasoning_mode_token', 'no_think')) return only('none') // but for a parser that has its own rules
  if (isSetTo('enable_thinking', false)) return only('enable_thinking')
  if (isLow) return { thinkingSwitch: 'enable_thinking', hasLowEffort: true }
  if (isOn('enable_thinking')) return only('enable_thinking')
  return only(isSetTo('thinking', false) || isOn('thinking') ? 'thinking' : undefined)

  /** Where it is not given: by a condition that is written without dashes, or by a filter. */
  function isSetTo(name: string, value: boolean): boolean {
    const spelled = value ? '(true|True)' : '(false|False)'
    const unless = `{%\\s*if\\s+not\\s+${name}\\s+is\\s+defined\\s*%}.*?{%\\s*set\\s+${name}\\s*=\\s*${spelled}\\s*%}`
    return new RegExp(unless, 's').test(source) || isDefaulted(parsed, name, value)
  }

  function isOn(name: string): boolean {
    const signs = [
      `set\\s+${name}\\s*=\\s*${name}\\s+if\\s+${name}\\s+is\\s+defined\\s+else\\s+(true|True)`,
      `${name}\\s+is\\s+defined\\s+and\\s+(${name}\\s+is\\s+false|not\\s+${name})`,
      `${name}\\s+is\\s+not\\s+defined\\s+or\\s+${name}`,
      `namespace\\([^)]*${name}\\s*=\\s*true`,
    ]
    return isSetTo(name, true) || signs.some((sign) => new RegExp(sign).test(source))
  }
}

/** `name | default(value)`; one that makes false true is no switch. */
function isDefaulted(parsed: Node, name: string, value: boolean): boolean {
  let isFound = false
  eachNode(parsed, (node) => {
    const { operand, filter } = node as Node & { readonly operand?: Node; readonly filter?: Node }
    if (node.type !== 'FilterExpression' || filter?.type !== 'CallExpression') return
    if (operand?.type !== 'Identifier' || nameOf(operand) !== name) return
    if (!['default', 'd'].includes(nameOf(filter['callee']))) return
    const [given, mode] = filter['args'] as readonly (Node | undefined)[]
    const replacesFalse = mode?.type === 'KeywordArgumentExpression' ? (mode['value'] as Node) : mode
    const isReplacing = mode === undefined ? false : truths.get(nameOf(replacesFalse))
    if (truths.get(nameOf(given)) === value && isReplacing !== undefined && !(isReplacing && value)) isFound = true
  })
  return isFound
}

const truths: ReadonlyMap<string, boolean> = new Map([
  ['true', true],
  ['True', true],
  ['false', false],
  ['False', false],
])
