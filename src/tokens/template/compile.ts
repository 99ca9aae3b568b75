/**
 * Compiles a parsed template into closures that render as jinja2 does inside `transformers`. The library parses; its own
 * evaluator differs from Python in ways that change tokens (`lstrip('\n')` strips spaces too, `None` prints nothing), and takes
 * thirty times as long.
 */
import type { Filter } from './filters.js'
import { filters, tests } from './filters.js'
import { findMethod, iterate } from './methods.js'
import { attributeOf, itemOf, negate, operators, sliceOf } from './operators.js'
import type { Run } from './run.js'
import { numberOf, Scope } from './run.js'
import { str } from './spell.js'
import type { Callable, Value } from './values.js'
import {
  dictEntries,
  float,
  isDict,
  isList,
  isTrue,
  LoopState,
  Namespace,
  TemplateError,
  Tuple,
  typeName,
} from './values.js'

/** A node of the library's syntax tree, which is plain data. */
export interface Node {
  readonly type: string
  readonly [key: string]: unknown
}

export type Statement = (scope: Scope, run: Run) => Flow
type Expression = (scope: Scope, run: Run) => Value
type Flow = typeof goesOn | typeof breaks | typeof continues

const goesOn = 0
const breaks = 1
const continues = 2
const noNames: ReadonlyMap<string, Value> = new Map()
const loopName = numberOf('loop')
const callerName = numberOf('caller')
const kwargsName = numberOf('kwargs')
const varargsName = numberOf('varargs')

/** The template cannot be compiled: it uses something that we do not know. */
export class TemplateSyntaxError extends Error {
  override readonly name = 'TemplateSyntaxError'
}

export function compileBlock(nodes: unknown): Statement {
  const statements = (nodes as readonly Node[]).map(compileStatement)
  if (statements.length === 1) return statements[0]!
  return (scope, run) => {
    for (const statement of statements) {
      const flow = statement(scope, run)
      if (flow !== goesOn) return flow
    }
    return goesOn
  }
}

function compileStatement(node: Node): Statement {
  switch (node.type) {
    case 'Program':
      return compileBlock(node['body'])
    case 'StringLiteral': {
      const text = node['value'] as string
      return (_, run) => {
        run.write(text)
        return goesOn
      }
    }
    case 'Comment':
      return () => goesOn
    case 'If':
      return compileIf(node)
    case 'For':
      return compileFor(node)
    case 'Set':
      return compileSet(node)
    case 'Macro':
      return compileMacro(node)
    case 'CallStatement':
      return compileCallStatement(node)
    case 'FilterStatement':
      return compileFilterStatement(node)
    case 'Break':
      return () => breaks
    case 'Continue':
      return () => continues
    default:
      return compilePrint(node)
  }
}

function compilePrint(node: Node): Statement {
  const value = compile(node)
  return (scope, run) => {
    run.step()
    run.write(str(value(scope, run)))
    return goesOn
  }
}

function compileIf(node: Node): Statement {
  const test = compile(node['test'])
  const body = compileBlock(node['body'])
  const otherwise = compileBlock(node['alternate'])
  return (scope, run) => {
    run.step()
    return isTrue(test(scope, run)) ? body(scope, run) : otherwise(scope, run)
  }
}

function compileFor(node: Node): Statement {
  const iterable = node['iterable'] as Node
  const isFiltered = iterable.type === 'SelectExpression'
  const source = compile(isFiltered ? iterable['lhs'] : iterable)
  const keeps = isFiltered ? compile(iterable['test']) : undefined
  const assign = compileTarget(node['loopvar'] as Node)
  const body = compileBlock(node['body'])
  const otherwise = compileBlock(node['defaultBlock'])
  return (scope, run) => {
    const all = iterate(source(scope, run))
    const items = keeps ? all.filter((item) => isKept(item, scope, run)) : all
    if (items.length === 0) return otherwise(new Scope(scope), run)
    const loop = new LoopState(items)
    const inner = new Scope(scope)
    for (let index = 0; index < items.length; index++) {
      run.step()
      loop.index0 = index
      inner.clear() // what a turn sets is gone in the next
      inner.set(loopName, loop)
      assign(inner, items[index], run)
      if (body(inner, run) === breaks) break
    }
    return goesOn
  }

  function isKept(item: Value, scope: Scope, run: Run): boolean {
    const inner = new Scope(scope)
    assign(inner, item, run)
    return isTrue(keeps!(inner, run))
  }
}

function compileTarget(node: Node): (scope: Scope, value: Value, run: Run) => void {
  if (node.type === 'Identifier') {
    const name = numberOf(node['value'] as string)
    return (scope, value) => scope.set(name, value)
  }
  if (node.type === 'TupleLiteral') {
    const targets = (node['value'] as readonly Node[]).map(compileTarget)
    return (scope, value, run) => {
      const items = iterate(value)
      if (items.length !== targets.length) throw new TemplateError('the number of values to unpack does not fit')
      for (const [index, target] of targets.entries()) target(scope, items[index], run)
    }
  }
  if (node.type === 'MemberExpression') {
    const object = compile(node['object'])
    const name = (node['property'] as Node)['value'] as string
    return (scope, value, run) => {
      const target = object(scope, run)
      if (!(target instanceof Namespace)) throw new TemplateError('only a namespace takes attributes')
      target.values.set(name, value)
    }
  }
  throw new TemplateSyntaxError(`cannot assign to ${node.type}`)
}

function compileSet(node: Node): Statement {
  const assign = compileTarget(node['assignee'] as Node)
  if (node['value']) {
    const value = compile(node['value'])
    return (scope, run) => {
      run.step()
      assign(scope, value(scope, run), run)
      return goesOn
    }
  }
  const body = compileBlock(node['body'])
  return (scope, run) => {
    assign(scope, capture(body, new Scope(scope), run), run)
    return goesOn
  }
}

/** What a block writes, instead of writing it. */
function capture(body: Statement, scope: Scope, run: Run): string {
  run.step()
  const outer = run.out
  run.out = ''
  body(scope, run)
  const text = run.out
  run.out = outer
  return text
}

function compileMacro(node: Node): Statement {
  const name = numberOf((node['name'] as { readonly value: string }).value)
  const make = compileCallable(node['args'], node['body'])
  return (scope, run) => {
    scope.set(name, make(scope, run))
    return goesOn
  }
}

/** A macro, or the body of a call block: parameters, defaults, and a scope that sees where it was written. */
function compileCallable(args: unknown, body: unknown): (scope: Scope, run: Run) => Callable {
  const parameters = ((args ?? []) as readonly Node[]).map((node) =>
    node.type === 'Identifier'
      ? { name: node['value'] as string, fallback: undefined }
      : { name: (node['key'] as Node)['value'] as string, fallback: compile(node['value']) },
  )
  for (const { name } of parameters) numberOf(name)
  const block = compileBlock(body)
  return (scope, run) => (given, named) => {
    const inner = new Scope(scope)
    const extra = new Map(named)
    for (const [index, { name, fallback }] of parameters.entries()) {
      const value = index < given.length ? given[index] : extra.get(name)
      extra.delete(name)
      inner.setNamed(name, value === undefined && fallback ? fallback(inner, run) : value)
    }
    const caller = extra.get('caller')
    if (caller !== undefined) inner.set(callerName, caller)
    extra.delete('caller')
    inner.set(kwargsName, new Map<Value, Value>(extra))
    inner.set(varargsName, Tuple.from(given.slice(parameters.length)) as Tuple)
    return capture(block, inner, run)
  }
}

function compileCallStatement(node: Node): Statement {
  const call = node['call'] as Node
  const callee = compile(call['callee'])
  const args = compileArguments(call['args'])
  const make = compileCallable(node['callerArgs'], node['body'])
  return (scope, run) => {
    const { given, named } = args(scope, run)
    const caller = make(scope, run)
    run.write(str(invoke(callee(scope, run), given, new Map([...named, ['caller', caller]]))))
    return goesOn
  }
}

function compileFilterStatement(node: Node): Statement {
  const body = compileBlock(node['body'])
  const apply = compileFilter(node['filter'] as Node)
  return (scope, run) => {
    run.write(str(apply(capture(body, new Scope(scope), run), scope, run)))
    return goesOn
  }
}

function compile(node: unknown): Expression {
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
      return (scope, run) => new Map<Value, Value>(entries.map(([key, value]) => [key(scope, run), value(scope, run)]))
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
  const number = numberOf(name)
  return (scope) => scope.get(number)
}

function compileChoice(test: unknown, yes: unknown, no: unknown): Expression {
  const isChosen = compile(test)
  const whenTrue = compile(yes)
  const whenFalse = no === undefined ? (): Value => undefined : compile(no)
  return (scope, run) => (isTrue(isChosen(scope, run)) ? whenTrue(scope, run) : whenFalse(scope, run))
}

function compileMember(node: Node): Expression {
  const object = compile(node['object'])
  const property = node['property'] as Node
  if (property.type === 'SliceExpression') {
    const [start, stop, step] = ['start', 'stop', 'step'].map((key) =>
      property[key] ? compile(property[key]) : undefined,
    )
    return (scope, run) => sliceOf(object(scope, run), start?.(scope, run), stop?.(scope, run), step?.(scope, run))
  }
  if (node['computed']) {
    const key = compile(property)
    return (scope, run) => itemOf(object(scope, run), key(scope, run))
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
      return method ? method(self as never, given, named) : invoke(attributeOf(self, name), given, named)
    }
  }
  const target = compile(callee)
  return (scope, run) => {
    run.step()
    const { given, named } = args(scope, run)
    return invoke(target(scope, run), given, named)
  }
}

function invoke(callee: Value, given: readonly Value[], named: ReadonlyMap<string, Value>): Value {
  if (typeof callee !== 'function') throw new TemplateError(`${typeName(callee)} is not callable`)
  return callee(given, named)
}

interface Arguments {
  readonly given: readonly Value[]
  readonly named: ReadonlyMap<string, Value>
}

function compileArguments(nodes: unknown): (scope: Scope, run: Run) => Arguments {
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
        for (const [key, item] of dictEntries(found)) named.set(str(key), item)
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
  return (scope, run) => operator(left(scope, run), right(scope, run))
}

function compileUnary(node: Node): Expression {
  const name = (node['operator'] as { readonly value: string }).value
  const argument = compile(node['argument'])
  if (name === 'not') return (scope, run) => !isTrue(argument(scope, run))
  if (name === '-') return (scope, run) => negate(argument(scope, run))
  if (name === '+') return argument
  throw new TemplateSyntaxError(`unknown operator: ${name}`)
}

function compileFilter(node: Node): (value: Value, scope: Scope, run: Run) => Value {
  const isCall = node.type === 'CallExpression'
  const name = (isCall ? (node['callee'] as Node)['value'] : node['value']) as string
  const filter: Filter | undefined = Object.hasOwn(filters, name) ? filters[name] : undefined
  if (!filter) throw new TemplateSyntaxError(`unknown filter: ${name}`)
  const args = compileArguments(isCall ? node['args'] : [])
  return (value, scope, run) => {
    const { given, named } = args(scope, run)
    const result = filter(value, given, named)
    run.step(1 + workOf(value) + workOf(result))
    return result
  }
}

/** Long strings and lists are work that the number of statements does not show. */
function workOf(value: Value): number {
  if (typeof value === 'string') return value.length >>> 8
  return isList(value) ? value.length >>> 3 : 0
}

function compileTest(node: Node): Expression {
  const operand = compile(node['operand'])
  const name = (node['test'] as Node)['value'] as string
  const test = Object.hasOwn(tests, name) ? tests[name] : undefined
  if (!test) throw new TemplateSyntaxError(`unknown test: ${name}`)
  const isNegated = Boolean(node['negate'])
  return (scope, run) => test(operand(scope, run), []) !== isNegated
}
