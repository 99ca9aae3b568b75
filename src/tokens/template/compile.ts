/**
 * Compiles a parsed template into closures that render as jinja2 does inside `transformers`. The library parses; its own
 * evaluator differs from Python in ways that change tokens (`lstrip('\n')` strips spaces too, `None` prints nothing), and takes
 * thirty times as long.
 */
import { compile, compileArguments, compileFilter, compileNoting, compileSoftly, invoke } from './compile-expression.js'
import { iterate } from './methods.js'
import type { Node } from './node.js'
import { eachNode, nameOf, TemplateSyntaxError } from './node.js'
import type { Flow, Run } from './run.js'
import { breaks, continues, goesOn, numberOf, Scope } from './run.js'
import { str } from './spell.js'
import type { TurnPlan, TurnPlans } from './turn-plan.js'
import type { TurnSite } from './turns.js'
import type { Callable, Value } from './values.js'
import { isTrue, LoopState, Namespace, TemplateError, Tuple } from './values.js'

export type Statement = (scope: Scope, run: Run) => Flow

const loopName = numberOf('loop')
const callerName = numberOf('caller')
const kwargsName = numberOf('kwargs')
const varargsName = numberOf('varargs')
const noNames: ReadonlyMap<string, Value> = new Map()

/** `plans` are the loops whose turns may be replayed; those below are found only from the top of a template. */
export function compileBlock(nodes: unknown, plans?: TurnPlans): Statement {
  return compileSoftly(false, () => compileStatements(nodes, plans))
}

function compileStatements(nodes: unknown, plans?: TurnPlans): Statement {
  const statements = (nodes as readonly Node[]).map((node) => compileStatement(node, plans))
  if (statements.length === 1) return statements[0]!
  return (scope, run) => {
    for (const statement of statements) {
      const flow = statement(scope, run)
      if (flow !== goesOn) return flow
    }
    return goesOn
  }
}

function compileStatement(node: Node, plans?: TurnPlans): Statement {
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
    case 'Hide':
      return compileHide(node)
    case 'If':
      return compileIf(node, plans)
    case 'For':
      return compileFor(node, plans?.get(node))
    case 'Set':
      return compileSet(node)
    case 'Macro':
      return compileMacro(node)
    case 'CallStatement':
      return compileCallStatement(node)
    case 'FilterStatement':
      return compileFilterStatement(node)
    case 'Generation':
      return compileGeneration(node)
    case 'With':
      return compileWith(node)
    case 'Break':
      return () => breaks
    case 'Continue':
      return () => continues
    default:
      return compilePrint(node)
  }
}

function compileHide(node: Node): Statement {
  const names = (node['names'] as readonly string[]).map(numberOf)
  return (scope) => {
    for (const name of names) scope.set(name, undefined)
    return goesOn
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

function compileIf(node: Node, plans?: TurnPlans): Statement {
  const [test, body, otherwise] = compileSoftly(true, () => [
    compile(node['test']),
    compileStatements(node['body'], plans),
    compileStatements(node['alternate'], plans),
  ])
  return (scope, run) => {
    run.step()
    return isTrue(test(scope, run)) ? body(scope, run) : otherwise(scope, run)
  }
}

function compileFor(node: Node, plan: TurnPlan | undefined): Statement {
  const iterable = node['iterable'] as Node
  const isFiltered = iterable.type === 'SelectExpression'
  const isUnpacked = (node['loopvar'] as Node).type === 'TupleLiteral'
  const source = compile(isFiltered ? iterable['lhs'] : iterable)
  const keeps = isFiltered ? compileSoftly(false, () => compile(iterable['test'])) : undefined
  const assign = compileTarget(node['loopvar'] as Node)
  const { body, site } = compileSite(plan, node['body'])
  const otherwise = compileBlock(node['defaultBlock'])
  return (scope, run) => {
    const all = iterate(source(scope, run))
    const kept = keeps ? all.filter((item) => isKept(item, scope, run)) : all
    // What jinja2 filters it unpacks before, and hands on as it unpacked it.
    const items = keeps && isUnpacked ? kept.map((item) => Tuple.from(iterate(item)) as Tuple) : kept
    const loop = new LoopState(items)
    const inner = new Scope(scope)
    const turns = site && run.turns?.open(site, scope, run)
    let isDone = false
    for (let index = 0; index < items.length; index++) {
      run.step()
      loop.index0 = index
      inner.clear() // what a turn sets is gone in the next
      inner.set(loopName, loop)
      assign(inner, items[index], run)
      const flow = turns ? turns.run(index, items[index], inner, body) : body(inner, run)
      if (flow === breaks) break
      if (flow === goesOn) isDone = true
    }
    turns?.close()
    // To jinja2 a loop that never came to the end of its body is an empty one.
    return isDone ? goesOn : otherwise(new Scope(scope), run)
  }

  function isKept(item: Value, scope: Scope, run: Run): boolean {
    run.spend(2)
    const inner = new Scope(scope)
    assign(inner, item, run)
    return isTrue(keeps!(inner, run))
  }
}

/** A loop whose turns may be replayed: its body notes what it reads outside. */
function compileSite(plan: TurnPlan | undefined, body: unknown): { body: Statement; site: TurnSite | undefined } {
  if (!plan) return { body: compileBlock(body), site: undefined }
  const { body: compiled, isNoted } = compileNoting(plan.places, () => compileBlock(body))
  if (!isNoted) return { body: compiled, site: undefined }
  const site = {
    id: plan.id,
    guards: plan.guards.map(({ node, isTest, isFixed }) => ({ read: compile(node), isTest, isFixed })),
    names: plan.names.map(numberOf),
    attributes: plan.attributes.map(compile),
    effects: plan.effects.map(([name, attribute]) => ({ name: numberOf(name), attribute })),
  }
  return { body: compiled, site }
}

function compileTarget(node: Node): (scope: Scope, value: Value, run: Run) => void {
  if (node.type === 'Identifier') {
    const name = numberOf(ownName(nameOf(node)))
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
    if (node['computed']) throw new TemplateSyntaxError('cannot assign to an item')
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

/** Names that jinja2 sets. A block in which the template sets one, too, is not told of it, also where it reads it before. */
const namesOfJinja = new Set(['caller', 'kwargs', 'loop', 'self', 'varargs'])

function ownName(name: string): string {
  if (namesOfJinja.has(name)) throw new TemplateSyntaxError(`what it means to set ${name} is not known`)
  return name
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
  const name = numberOf(ownName(nameOf(node['name'])))
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
      ? { name: ownName(nameOf(node)), fallback: undefined }
      : { name: ownName(nameOf(node['key'])), fallback: compile(node['value']) },
  )
  for (const { name } of parameters) numberOf(name)
  const block = compileBlock(body)
  const takes = specialNames(body)
  return (scope, run) => (given, named) => {
    const inner = new Scope(scope)
    const extra = new Map(named)
    for (const [index, { name, fallback }] of parameters.entries()) {
      // Something undefined that is handed over is not the same as nothing.
      const isGiven = index < given.length || extra.has(name)
      const value = index < given.length ? given[index] : extra.get(name)
      if (index >= given.length) extra.delete(name)
      inner.setNamed(name, !isGiven && fallback ? fallback(inner, run) : value)
    }
    const caller = extra.get('caller')
    if (takes.caller) extra.delete('caller')
    if (takes.caller) inner.set(callerName, caller)
    if (extra.size > 0 && !takes.kwargs) throw new TemplateError('the macro takes no such argument')
    if (given.length > parameters.length && !takes.varargs) throw new TemplateError('too many arguments for the macro')
    inner.set(kwargsName, new Map<Value, Value>(extra))
    inner.set(varargsName, Tuple.from(given.slice(parameters.length)) as Tuple)
    return capture(block, inner, run)
  }
}

/** What a macro takes beside its parameters is what it reads. */
function specialNames(body: unknown): Readonly<Record<'caller' | 'kwargs' | 'varargs', boolean>> {
  const takes = { caller: false, kwargs: false, varargs: false }
  eachNode(body, (node, role) => {
    const name = node.type === 'Identifier' && role !== 'label' ? nameOf(node) : ''
    if (name === 'caller' || name === 'kwargs' || name === 'varargs') takes[name] = true
  })
  return takes
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

/** To jinja2 it is the body of a call: what it sets is gone with it. */
function compileGeneration(node: Node): Statement {
  const make = compileCallable([], node['body'])
  return (scope, run) => {
    run.write(str(make(scope, run)([], noNames)))
    return goesOn
  }
}

function compileWith(node: Node): Statement {
  const names = (node['names'] as readonly string[]).map(ownName).map(numberOf)
  const values = (node['values'] as readonly Node[]).map(compile)
  const body = compileBlock(node['body'])
  return (scope, run) => {
    run.step()
    const inner = new Scope(scope)
    for (const [index, value] of values.entries()) inner.set(names[index]!, value(scope, run))
    return body(inner, run)
  }
}

function compileFilterStatement(node: Node): Statement {
  const body = compileBlock(node['body'])
  const apply = compileFilter(node['filter'] as Node)
  return (scope, run) => {
    const inner = new Scope(scope) // the filter's arguments are read where the block ends
    run.write(str(apply(capture(body, inner, run), inner, run)))
    return goesOn
  }
}
