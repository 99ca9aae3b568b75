/** Compiles the expressions of a template into closures. Those that a replayed loop must note say what they found. */
import type { Filter, Test } from './filters.js'
import { filters, markupFilters, tests } from './filters.js'
import { findMethod, iterate } from './methods.js'
import type { Node } from './node.js'
import { TemplateSyntaxError } from './node.js'
import { attributeOf, itemOf, negate, operators, posit, sliceOf } from './operators.js'
import type { Run, Scope } from './run.js'
import { numberOf } from './run.js'
import type { Value } from './values.js'
import {
  dictEntries,
  float,
  isDict,
  isList,
  isTrue,
  Lazy,
  Markup,
  newDict,
  TemplateError,
  Tuple,
  typeName,
} from './values.js'

export type Expression = (scope: Scope, run: Run) => Value

const noNames: ReadonlyMap<string, Value> = new Map()

/** Where the expressions stand that must be noted in what is compiled now; compiling is one synchronous walk. */
let places: ReadonlyMap<Node, number> | undefined
let notedCount = 0
/** Whether jinja2 leaves a filter or test that it does not know until it is used: in a condition and what hangs on it. */
let isSoft = false

export function compileSoftly<T>(soft: boolean, compilePart: () => T): T {
  const before = isSoft
  isSoft = soft
  try {
    return compilePart()
  } finally {
    isSoft = before
  }
}

function unknownName(what: string): () => never {
  if (!isSoft) throw new TemplateSyntaxError(`unknown ${what}`)
  return () => {
    throw new TemplateError(`unknown ${what}`)
  }
}

/** Compiles with notes at these places. Not noted: one of them is never evaluated by itself. */
export function compileNoting<T>(at: ReadonlyMap<Node, number>, compileBody: () => T): { body: T; isNoted: boolean } {
  places = at
  notedCount = 0
  const body = compileBody()
  places = undefined
  return { body, isNoted: notedCount === at.size }
}

export function compile(node: unknown): Expression {
  const value = compileValue(node)
  const place = places?.get(node as Node)
  if (place === undefined) return value
  notedCount++
  return (scope, run) => run.note(place, value(scope, run))
}

function compileValue(node: unknown): Expression {
  const { type } = node as Node
  const it = node as Node
  switch (type) {
    case 'Identifier':
      return compileName(it['value'] as string)
    case 'IntegerLiteral':
    case 'StringLiteral': {
      const value = it['value'] as Value
      return () => value
    }
    case 'FloatLiteral': {
      const value = float(it['value'] as number)
      return () => value
    }
    case 'ArrayLiteral': {
      const items = (it['value'] as readonly Node[]).map(compile)
      return (scope, run) => items.map((item) => item(scope, run))
    }
    case 'TupleLiteral': {
      const items = (it['value'] as readonly Node[]).map(compile)
      return (scope, run) => Tuple.from(items.map((item) => item(scope, run))) as Tuple
    }
    case 'ObjectLiteral': {
      const entries = [...(it['value'] as Map<Node, Node>)].map(
        ([key, value]) => [compile(key), compile(value)] as const,
      )
      return (scope, run) => newDict(entries.map(([key, value]) => [key(scope, run), value(scope, run)]))
    }
    case 'MemberExpression':
      return compileMember(it)
    case 'CallExpression':
      return compileCall(it)
    case 'BinaryExpression':
      return compileBinary(it)
    case 'UnaryExpression':
      return compileUnary(it)
    case 'FilterExpression': {
      const operand = compile(it['operand'])
      const apply = compileFilter(it['filter'] as Node)
      return (scope, run) => apply(operand(scope, run), scope, run)
    }
    case 'TestExpression':
      return compileTest(it)
    case 'Ternary':
      return compileChoice(it['condition'], it['trueExpr'], it['falseExpr'])
    case 'SelectExpression':
      return compileChoice(it['test'], it['lhs'], undefined)
    default:
      throw new TemplateSyntaxError(`unknown syntax: ${type}`)
  }
}

function compileName(name: string): Expression {
  const constants: Readonly<Record<string, Value>> = {
    true: true,
    True: true,
    false: false,
    False: false,
    none: null,
    None: null,
  }
  if (Object.hasOwn(constants, name)) {
    const value = constants[name]
    return () => value
  }
  if (name === 'self') throw new TemplateSyntaxError('a template that speaks of itself is not known')
  const number = numberOf(name)
  return (scope) => scope.get(number)
}

function compileChoice(test: unknown, yes: unknown, no: unknown): Expression {
  const [isChosen, whenTrue, whenFalse] = compileSoftly(true, () => [
    compile(test),
    compile(yes),
    no === undefined ? (): Value => undefined : compile(no),
  ])
  return (scope, run) => (isTrue(isChosen(scope, run)) ? whenTrue(scope, run) : whenFalse(scope, run))
}

function compileMember(node: Node): Expression {
  const object = compile(node['object'])
  const property = node['property'] as Node
  if (property.type === 'SliceExpression') {
    const part = (name: string): Expression => (property[name] ? compile(property[name]) : () => null)
    const [start, stop, step] = [part('start'), part('stop'), part('step')]
    return (scope, run) => {
      const whole = object(scope, run)
      run.step(countingWork(whole))
      return sliceOf(whole, start(scope, run), stop(scope, run), step(scope, run))
    }
  }
  if (node['computed']) {
    const key = compile(property)
    return (scope, run) => {
      const whole = object(scope, run)
      run.step(countingWork(whole))
      return itemOf(whole, key(scope, run))
    }
  }
  const name = property['value']
  if (typeof name === 'number') return (scope, run) => itemOf(object(scope, run), name)
  return (scope, run) => attributeOf(object(scope, run), name as string)
}

function compileCall(node: Node): Expression {
  const args = compileArguments(node['args'])
  const callee = node['callee'] as Node
  if (callee.type === 'MemberExpression' && !callee['computed']) {
    const object = compile(callee['object'])
    const name = (callee['property'] as Node)['value'] as string
    return (scope, run) => {
      const self = object(scope, run)
      const { given, named } = args(scope, run)
      const method = findMethod(self, name)
      run.step(typeof self === 'string' ? 1 + (self.length >>> 8) : 1)
      return run.hold(method ? method(self as never, given, named) : invoke(attributeOf(self, name), given, named))
    }
  }
  const target = compile(callee)
  return (scope, run) => {
    run.step()
    const { given, named } = args(scope, run)
    return invoke(target(scope, run), given, named)
  }
}

export function invoke(callee: Value, given: readonly Value[], named: ReadonlyMap<string, Value>): Value {
  if (typeof callee !== 'function') throw new TemplateError(`${typeName(callee)} is not callable`)
  return callee(given, named)
}

interface Arguments {
  readonly given: readonly Value[]
  readonly named: ReadonlyMap<string, Value>
}

export function compileArguments(nodes: unknown): (scope: Scope, run: Run) => Arguments {
  const list = nodes as readonly Node[]
  if (list.length === 0) {
    const none: Arguments = { given: [], named: noNames }
    return () => none
  }
  const parts = list.map((node) => {
    const isNamed = node.type === 'KeywordArgumentExpression'
    const isSpread = node.type === 'SpreadExpression' || node.type === 'KeywordSpreadExpression'
    return {
      type: node.type,
      name: isNamed ? ((node['key'] as Node)['value'] as string) : '',
      value: compile(isNamed ? node['value'] : isSpread ? node['argument'] : node),
    }
  })
  return (scope, run) => {
    const given: Value[] = []
    let named: Map<string, Value> | undefined
    for (const { type, name, value } of parts) {
      const found = value(scope, run)
      if (type === 'KeywordArgumentExpression') (named ??= new Map()).set(name, found)
      else if (type === 'SpreadExpression') given.push(...iterate(found))
      else if (type === 'KeywordSpreadExpression') {
        if (!isDict(found)) throw new TemplateError('** wants a mapping')
        named ??= new Map()
        for (const [key, item] of dictEntries(found)) {
          if (typeof key !== 'string' || named.has(key)) throw new TemplateError('** wants names, each once')
          named.set(key, item)
        }
      } else given.push(found)
    }
    return { given, named: named ?? noNames }
  }
}

function compileBinary(node: Node): Expression {
  const name = (node['operator'] as { readonly value: string }).value
  const left = compile(node['left'])
  const right = compile(node['right'])
  if (name === 'and') {
    return (scope, run) => {
      const first = left(scope, run)
      return isTrue(first) ? right(scope, run) : first
    }
  }
  if (name === 'or') {
    return (scope, run) => {
      const first = left(scope, run)
      return isTrue(first) ? first : right(scope, run)
    }
  }
  const operator = operators[name]
  if (!operator) throw new TemplateSyntaxError(`unknown operator: ${name}`)
  const isSearch = name === 'in' || name === 'not in'
  const makes = name === '~' || name === '+' || name === '%' || name === '*'
  return (scope, run) => {
    const first = left(scope, run)
    const second = right(scope, run)
    // Joining texts is left out: that costs the same, however long they are.
    if (isSearch || isList(second)) run.step(workOf(first) + workOf(second))
    const result = operator(first, second)
    return makes ? run.hold(result) : result
  }
}

function compileUnary(node: Node): Expression {
  const name = (node['operator'] as { readonly value: string }).value
  const argument = compile(node['argument'])
  if (name === 'not') return (scope, run) => !isTrue(argument(scope, run))
  if (name === '-') return (scope, run) => negate(argument(scope, run))
  if (name === '+') return (scope, run) => posit(argument(scope, run))
  throw new TemplateSyntaxError(`unknown operator: ${name}`)
}

export function compileFilter(node: Node): (value: Value, scope: Scope, run: Run) => Value {
  const isCall = node.type === 'CallExpression'
  const name = (isCall ? (node['callee'] as Node)['value'] : node['value']) as string
  const filter: Filter = Object.hasOwn(filters, name) ? filters[name]! : unknownName(`filter: ${name}`)
  const args = compileArguments(isCall ? node['args'] : [])
  return (value, scope, run) => {
    const { given, named } = args(scope, run)
    if ((value instanceof Markup && !markupFilters.has(name)) || given.some((it) => it instanceof Markup))
      throw new TemplateError(`what ${name} does to an escaped text is not known`)
    const result = run.hold(filter(value, given, named))
    run.step(1 + workOf(value) + workOf(result))
    return result
  }
}

/** Long strings and lists are work that the number of statements does not show. */
function workOf(value: Value): number {
  if (typeof value === 'string') return value.length >>> 8
  if (value instanceof Lazy) return value.sourceLength >>> 3
  return isList(value) ? value.length >>> 3 : 0
}

/** A character that is asked for by its number is counted for, and made to stand alone. */
function countingWork(value: Value): number {
  return typeof value === 'string' ? value.length >>> 5 : 0
}

function compileTest(node: Node): Expression {
  const operand = compile(node['operand'])
  const name = (node['test'] as Node)['value'] as string
  const test: Test = Object.hasOwn(tests, name) ? tests[name]! : unknownName(`test: ${name}`)
  const isNegated = Boolean(node['negate'])
  const args = compileArguments(node['args'])
  return (scope, run) => {
    const value = operand(scope, run)
    const { given, named } = args(scope, run)
    if (named.size > 0) throw new TemplateError('a test with names is not known')
    return test(value, given) !== isNegated
  }
}
