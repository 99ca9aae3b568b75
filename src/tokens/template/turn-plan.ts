/**
 * Which loops of a template may be replayed turn by turn, and what has to be compared before a turn is taken from an
 * earlier rendering. What a turn writes follows from its item, from what it reads outside the loop, and from nothing else: so
 * every expression in the loop's body that reaches outside becomes a guard, and equal items with equal guards give equal
 * text. A body that could do more than read (`call` blocks, macros that look around, unknown functions) is not replayed.
 */
import { lazyFilters } from './filters.js'
import type { Node } from './node.js'
import { assignedNames, childrenOf, eachNode, listOf, nameOf, namesSetBy, targetNames } from './node.js'

export interface Guard {
  readonly node: Node
  /** Only whether it is true matters: it stands in a condition. */
  readonly isTest: boolean
  /** The same for every turn of one rendering. */
  readonly isFixed: boolean
}

export interface TurnPlan {
  /** Place of the loop among those of the template that may be replayed. */
  readonly id: number
  /** Compared where the turn read them: a branch that it did not take cannot have changed it. */
  readonly guards: readonly Guard[]
  /** Where the guards stand in the body. */
  readonly places: ReadonlyMap<Node, number>
  /** Names that are compared before the first turn, whether they are read or not. */
  readonly names: readonly string[]
  /** Attributes of namespaces that turns set and read: compared at the start of every turn. */
  readonly attributes: readonly Node[]
  /** Attributes of outer namespaces that a turn may set: `[namespace, attribute]`. */
  readonly effects: readonly (readonly [string, string])[]
}

export type TurnPlans = ReadonlyMap<Node, TurnPlan>

/** Functions whose result follows from their arguments. The one that does not, `strftime_now`, is a guard itself. */
const pureFunctions = new Set(['range', 'dict', 'namespace', 'raise_exception'])
const clockFunction = 'strftime_now'
const constants = new Set(['true', 'True', 'false', 'False', 'none', 'None'])

/** The loops at the top of a template, also inside its conditions: they run once and write straight into the text. */
export function planTurns(template: Node): TurnPlans {
  const plans = new Map<Node, TurnPlan>()
  const macros: PureMacros = new Map()
  const assigned = assignedNames(template)
  for (const name of definedAgain(template)) assigned.add(name) // which of them is called depends on when
  if (handsOutFunctions(template)) return plans // such a function can be called under any name
  if (keepsLazies(template)) return plans // to read one is to use it up
  for (const node of listOf(template, 'body')) {
    if (node.type === 'Macro') readMacro(node)
    else planIn(node)
  }
  return plans

  function readMacro(node: Node): void {
    const name = nameOf(node['name'])
    const outside = assigned.has(name) ? undefined : namesOutside(node, macros)
    if (outside) macros.set(name, outside)
    else assigned.add(name)
  }

  function planIn(node: Node): void {
    if (node.type === 'If') for (const it of [...listOf(node, 'body'), ...listOf(node, 'alternate')]) planIn(it)
    if (node.type !== 'For' || !writes(listOf(node, 'body'))) return
    const plan = new LoopReader(node, macros, assigned).plan(plans.size)
    if (plan) plans.set(node, plan)
  }
}

/** Macros whose text follows from their arguments and from these names outside, which are read in the template's own scope. */
type PureMacros = Map<string, ReadonlySet<string>>

/** What an expression depends on. */
interface Reach {
  readonly isOuter: boolean // on something outside the loop
  readonly isTurn: boolean // on the turn: its item, or `loop`
  readonly isLocal: boolean // on something that the body sets
}
const nothing: Reach = { isOuter: false, isTurn: false, isLocal: false }

class Refusal extends Error {}

class LoopReader {
  readonly #loop: Node
  readonly #macros: PureMacros
  readonly #assigned: ReadonlySet<string>
  readonly #items: ReadonlySet<string>
  readonly #locals: Set<string>
  readonly #written: Set<string>
  readonly #effects = new Map<string, readonly [string, string]>()
  readonly #guards: Guard[] = []
  readonly #places = new Map<Node, number>()
  readonly #names: Set<string>
  readonly #attributes = new Map<string, Node>()

  constructor(loop: Node, macros: PureMacros, assigned: ReadonlySet<string>) {
    this.#loop = loop
    this.#macros = macros
    this.#assigned = assigned
    this.#items = targetNames(loop['loopvar'] as Node)
    this.#locals = assignedNames({ type: 'Program', body: loop['body'] })
    this.#written = new Set()
    this.#names = new Set(this.#locals) // one that the body sets may be read before that, and then is the one outside
  }

  plan(id: number): TurnPlan | undefined {
    try {
      this.#findEffects(this.#loop['body'])
      this.#statements(listOf(this.#loop, 'body'), false)
    } catch (error) {
      if (error instanceof Refusal) return undefined
      throw error
    }
    return {
      id,
      guards: this.#guards,
      places: this.#places,
      names: [...this.#names],
      attributes: [...this.#attributes.values()],
      effects: [...this.#effects.values()],
    }
  }

  #findEffects(value: unknown): void {
    eachNode(value, (node) => {
      const target = node['assignee'] as Node | undefined
      if (node.type !== 'Set' || target?.type !== 'MemberExpression') return
      const object = target['object'] as Node
      if (object.type !== 'Identifier' || this.#items.has(nameOf(object))) throw new Refusal()
      const attribute = nameOf(target['property'])
      this.#written.add(attribute)
      if (this.#locals.has(nameOf(object))) return // its own namespace, gone with the turn
      this.#effects.set(`${nameOf(object)}.${attribute}`, [nameOf(object), attribute])
      this.#attributes.set(keyOf(target), target) // what it is before, where the turn leaves it alone
    })
  }

  #statement(node: Node, isNested: boolean): void {
    switch (node.type) {
      case 'Comment':
      case 'Hide':
      case 'Break':
      case 'Continue':
      case 'StringLiteral':
        return
      case 'If':
        this.#guard(node['test'] as Node, true, isNested)
        this.#statements([...listOf(node, 'body'), ...listOf(node, 'alternate')], isNested)
        return
      case 'For':
        this.#guardIterable(node['iterable'] as Node, isNested)
        this.#statements(listOf(node, 'body'), true)
        this.#statements(listOf(node, 'defaultBlock'), isNested)
        return
      case 'Set':
        if (node['value']) this.#guard(node['value'] as Node, false, isNested)
        else this.#statements(listOf(node, 'body'), isNested)
        return
      case 'FilterStatement':
        this.#children(node['filter'] as Node, isNested)
        this.#statements(listOf(node, 'body'), isNested)
        return
      case 'Generation':
        this.#statements(listOf(node, 'body'), isNested)
        return
      case 'With':
      case 'Macro':
      case 'CallStatement':
      case 'Program':
        throw new Refusal()
      default:
        this.#guard(node, false, isNested)
    }
  }

  #statements(nodes: readonly Node[], isNested: boolean): void {
    for (const node of nodes) this.#statement(node, isNested)
  }

  /** `for x in xs if x.y`: the two parts are evaluated, not the whole. */
  #guardIterable(node: Node, isNested: boolean): void {
    if (node.type === 'SelectExpression') this.#children(node, isNested)
    else this.#guard(node, false, isNested)
  }

  /** Guards what an expression reads outside: the whole of it where its value is small, else its parts. */
  #guard(node: Node, isTest: boolean, isNested: boolean): void {
    const reach = this.#reach(node, isNested)
    if (!reach.isOuter) return
    const isWhole = !reach.isLocal && !this.#readsWritten(node) && !isRaise(node) && !notValues.has(node.type)
    if (isWhole && (!reach.isTurn || hasSmallValue(node))) {
      this.#places.set(node, this.#guards.length)
      this.#guards.push({ node, isTest, isFixed: !reach.isTurn })
    } else if (this.#isWrittenAttribute(node)) {
      if ((node['object'] as Node).type !== 'Identifier') throw new Refusal()
      this.#attributes.set(keyOf(node), node)
    } else this.#children(node, isNested, isTest)
  }

  #children(node: Node, isNested: boolean, isTest = false): void {
    const operator = (node['operator'] as { readonly value: string } | undefined)?.value
    if (node.type === 'Ternary' || node.type === 'SelectExpression') {
      this.#guard((node['condition'] ?? node['test']) as Node, true, isNested)
      for (const part of [node['trueExpr'], node['falseExpr'], node['lhs']])
        if (part) this.#guard(part as Node, isTest, isNested)
      return
    }
    // `and`, `or` and `not` ask their sides for truth alone where that is all that is asked of them.
    const asksTruth = operator === 'not' || (isTest && (operator === 'and' || operator === 'or'))
    for (const child of childrenOf(node)) this.#guard(child, asksTruth, isNested)
  }

  #reach(node: Node, isNested: boolean): Reach {
    if (node.type === 'Identifier') return this.#reachOfName(nameOf(node), isNested)
    const parts = childrenOf(node).map((child) => this.#reach(child, isNested))
    if (node.type === 'CallExpression') parts.push(this.#reachOfCallee(node['callee'] as Node))
    return {
      isOuter: parts.some((it) => it.isOuter),
      isTurn: parts.some((it) => it.isTurn),
      isLocal: parts.some((it) => it.isLocal),
    }
  }

  #reachOfName(name: string, isNested: boolean): Reach {
    if (constants.has(name)) return nothing
    if (name === 'loop') return isNested ? { ...nothing, isLocal: true } : { ...nothing, isOuter: true, isTurn: true }
    if (this.#locals.has(name)) return { ...nothing, isLocal: true }
    if (this.#items.has(name)) return { ...nothing, isTurn: true }
    return { ...nothing, isOuter: true }
  }

  /** Methods change nothing. A function must be one that we know, and still be it when the template runs. */
  #reachOfCallee(callee: Node): Reach {
    if (callee.type === 'MemberExpression' && !callee['computed']) return nothing
    if (callee.type !== 'Identifier') throw new Refusal()
    const name = nameOf(callee)
    const outside = this.#macros.get(name)
    if (outside) {
      for (const it of outside) this.#names.add(it)
      return nothing
    }
    if (this.#assigned.has(name)) throw new Refusal()
    if (name === clockFunction) return { ...nothing, isOuter: true }
    if (!pureFunctions.has(name)) throw new Refusal()
    this.#names.add(name)
    return nothing
  }

  #readsWritten(node: Node): boolean {
    return this.#isWrittenAttribute(node) || childrenOf(node).some((child) => this.#readsWritten(child))
  }

  /** Whether this reads an attribute that the body sets, under whatever name its namespace goes. */
  #isWrittenAttribute(node: Node): boolean {
    if (this.#written.size === 0 || node.type !== 'MemberExpression') return false
    const property = node['property'] as Node
    if (this.#reach(node['object'] as Node, false).isOuter === false) return false
    if (!node['computed']) return this.#written.has(String(property['value'] as string | number))
    return property.type === 'StringLiteral' ? this.#written.has(property['value'] as string) : !isNumeric(property)
  }
}

/**
 * The names outside that a macro may read beside its arguments, or undefined where it does more than read. A name that it
 * sets itself may be read before that.
 */
function namesOutside(macro: Node, macros: PureMacros): ReadonlySet<string> | undefined {
  const own = assignedNames({ type: 'Program', body: macro['body'] })
  const outside = new Set(own)
  for (const parameter of listOf(macro, 'args')) {
    own.add(nameOf(parameter.type === 'Identifier' ? parameter : parameter['key']))
  }
  const made = namespacesMadeIn(macro)
  let isPure = true
  eachNode([macro['args'], macro['body']], (node, role) => {
    if (node.type === 'Macro' || node.type === 'CallStatement') isPure = false
    const target = node['assignee'] as Node | undefined
    if (target?.type === 'MemberExpression' && !made.has(nameOf(target['object']))) isPure = false
    if (node.type !== 'Identifier' || role === 'label') return
    const name = nameOf(node)
    if (role === 'callee') {
      const called = macros.get(name) ?? (pureFunctions.has(name) ? new Set([name]) : undefined)
      if (!called) isPure = false
      for (const it of called ?? []) outside.add(it)
    } else if (!own.has(name) && !constants.has(name) && name !== 'loop') isPure = false
  })
  return isPure ? outside : undefined
}

/** Names that hold nothing in a macro but namespaces of its own; one that it was given may be anybody's. */
function namespacesMadeIn(macro: Node): ReadonlySet<string> {
  const given = new Set(listOf(macro, 'args').map((it) => nameOf(it.type === 'Identifier' ? it : it['key'])))
  const made = new Set<string>()
  eachNode(macro['body'], (node) => {
    const value = node.type === 'Set' ? (node['value'] as Node | null | undefined) : undefined
    const isMade = value?.type === 'CallExpression' && nameOf(value['callee']) === 'namespace'
    for (const name of namesSetBy(node)) (isMade ? made : given).add(name)
  })
  for (const name of given) made.delete(name)
  return made
}

function definedAgain(template: Node): ReadonlySet<string> {
  const defined = new Set<string>()
  const again = new Set<string>()
  eachNode(template['body'], (node) => {
    if (node.type !== 'Macro') return
    const name = nameOf(node['name'])
    ;(defined.has(name) ? again : defined).add(name)
  })
  return again
}

function handsOutFunctions(template: Node): boolean {
  const functions = new Set([...pureFunctions, clockFunction])
  eachNode(template['body'], (node) => {
    if (node.type === 'Macro') functions.add(nameOf(node['name']))
  })
  let isHanded = false
  eachNode(template['body'], (node, role) => {
    if (node.type === 'Identifier' && role === 'value' && functions.has(nameOf(node))) isHanded = true
  })
  return isHanded
}

/** Whether what can be walked over once is kept anywhere, instead of being walked over where it stands. */
function keepsLazies(template: Node): boolean {
  const walked = new Set<Node>()
  const made = new Set<Node>()
  eachNode(template['body'], (node) => {
    if (node.type === 'FilterExpression') {
      const name = filterName(node)
      if (name !== 'default' && name !== 'd') walked.add(node['operand'] as Node)
      if (lazyFilters.has(name)) made.add(node)
    } else if (node.type === 'For') {
      const iterable = node['iterable'] as Node
      walked.add(iterable.type === 'SelectExpression' ? (iterable['lhs'] as Node) : iterable)
    } else if (node.type === 'If') walked.add(node['test'] as Node)
    else if (node.type === 'CallExpression' && (node['callee'] as Node).type === 'MemberExpression') {
      for (const it of listOf(node, 'args')) walked.add(it)
    } else if (node.type === 'BinaryExpression' && nameOf(node['operator']).endsWith('in')) {
      walked.add(node['right'] as Node)
    }
  })
  for (const node of made) if (!walked.has(node)) return true
  return false
}

function filterName(node: Node): string {
  const filter = node['filter'] as Node
  return nameOf(filter.type === 'CallExpression' ? filter['callee'] : filter)
}

/** Operators and tests that answer with a truth value, and reads: what a guard may keep of every turn. */
const smallOperators = new Set(['==', '!=', '<', '<=', '>', '>=', 'in', 'not in', 'not'])
const logic = new Set(['and', 'or'])

function hasSmallValue(node: Node): boolean {
  const operator = (node['operator'] as { readonly value: string } | undefined)?.value
  if (operator !== undefined && logic.has(operator)) {
    return hasSmallValue(node['left'] as Node) && hasSmallValue(node['right'] as Node)
  }
  if (operator !== undefined) return smallOperators.has(operator)
  if (node.type === 'CallExpression') return nameOf((node['callee'] as Node)['object']) === 'loop' // `loop.cycle`
  return node.type === 'TestExpression' || node.type === 'MemberExpression' || node.type === 'Identifier'
}

/** A loop that only counts has no text to take over. */
function writes(nodes: readonly Node[]): boolean {
  return nodes.some((node) => {
    if (node.type === 'If') return writes([...listOf(node, 'body'), ...listOf(node, 'alternate')])
    if (node.type === 'For') return writes([...listOf(node, 'body'), ...listOf(node, 'defaultBlock')])
    return !silent.has(node.type)
  })
}

const silent = new Set(['Set', 'Comment', 'Hide', 'Break', 'Continue', 'Macro'])

function isRaise(node: Node): boolean {
  return node.type === 'CallExpression' && nameOf(node['callee']) === 'raise_exception'
}

function isNumeric(node: Node): boolean {
  if (node.type === 'IntegerLiteral' || node.type === 'SliceExpression') return true
  const operator = (node['operator'] as { readonly value: string } | undefined)?.value
  if (node.type === 'UnaryExpression') return operator === '-'
  if (node.type === 'BinaryExpression') {
    const hasNumber = isNumeric(node['left'] as Node) || isNumeric(node['right'] as Node)
    return operator === '-' || (operator === '+' && hasNumber)
  }
  const isLoop = node.type === 'MemberExpression' && nameOf(node['object']) === 'loop'
  return isLoop && nameOf(node['property']).startsWith('index')
}

/** Parts of expressions that have no value of their own. */
const notValues = new Set([
  'SliceExpression',
  'KeywordArgumentExpression',
  'SpreadExpression',
  'KeywordSpreadExpression',
])

function keyOf(node: Node): string {
  return JSON.stringify(node, (_, value: unknown) => (value instanceof Map ? [...value] : value))
}
