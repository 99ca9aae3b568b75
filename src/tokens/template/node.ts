/** What a parsed template is made of: nodes of the library's syntax tree, which are plain data, and ways to walk them. */
export interface Node {
  readonly type: string
  readonly [key: string]: unknown
}

/** The template cannot be compiled: it uses something that we do not know. */
export class TemplateSyntaxError extends Error {
  override readonly name = 'TemplateSyntaxError'
}

/** Names that are set anywhere below: by `set`, by loops, by macros. */
export function assignedNames(root: Node): Set<string> {
  const names = new Set<string>()
  eachNode(root['body'], (node) => {
    for (const name of namesSetBy(node)) names.add(name)
  })
  return names
}

/** Names that are set by this node itself, and not by those below. */
export function namesSetBy(node: Node): ReadonlySet<string> {
  if (node.type === 'With') return new Set(node['names'] as readonly string[])
  const target = node.type === 'Set' ? node['assignee'] : node.type === 'For' ? node['loopvar'] : undefined
  return target ? targetNames(target as Node) : noNames
}

const noNames: ReadonlySet<string> = new Set()

export function targetNames(target: Node): Set<string> {
  if (target.type === 'Identifier') return new Set([nameOf(target)])
  if (target.type !== 'TupleLiteral') return new Set()
  return new Set((target['value'] as readonly Node[]).flatMap((it) => [...targetNames(it)]))
}

/** The parts of an expression that are evaluated; names of attributes, filters, tests and arguments are not. */
export function childrenOf(node: Node): Node[] {
  const parts: unknown[] = []
  switch (node.type) {
    case 'MemberExpression':
      parts.push(node['object'], ...(node['computed'] ? [node['property']] : []))
      break
    case 'CallExpression': {
      const callee = node['callee'] as Node
      if (callee.type === 'MemberExpression') parts.push(callee['object'])
      parts.push(...(node['args'] as unknown[]))
      break
    }
    case 'FilterExpression': {
      const filter = node['filter'] as Node
      parts.push(node['operand'], ...(filter.type === 'CallExpression' ? (filter['args'] as unknown[]) : []))
      break
    }
    case 'TestExpression':
      parts.push(node['operand'], ...(node['args'] as unknown[]))
      break
    case 'ObjectLiteral':
      parts.push(...[...(node['value'] as ReadonlyMap<Node, Node>)].flat())
      break
    case 'ArrayLiteral':
    case 'TupleLiteral':
      parts.push(...(node['value'] as readonly Node[]))
      break
    case 'KeywordArgumentExpression':
      parts.push(node['value'])
      break
    case 'SelectExpression':
      parts.push(node['lhs'], node['test'])
      break
    default:
      for (const name of expressionParts) parts.push(node[name])
  }
  return parts.filter((it): it is Node => typeof it === 'object' && it !== null && 'type' in it)
}

const expressionParts = [
  'left',
  'right',
  'argument',
  'operand',
  'condition',
  'trueExpr',
  'falseExpr',
  'start',
  'stop',
  'step',
] // prettier-ignore

export type Role = 'value' | 'callee' | 'label'

/** Every node below, with what a name in it is for. */
export function eachNode(value: unknown, visit: (node: Node, role: Role) => void, role: Role = 'value'): void {
  if (Array.isArray(value)) for (const item of value as unknown[]) eachNode(item, visit, role)
  else if (value instanceof Map) for (const entry of value as Map<unknown, unknown>) eachNode(entry, visit, role)
  else if (typeof value === 'object' && value !== null && 'type' in value) {
    const node = value as Node
    visit(node, role)
    for (const [name, part] of Object.entries(node)) {
      const isNameOfFilter = role === 'label' && name === 'callee'
      const isToken = name === 'operator' // `or` looks like a name
      if (!isNameOfFilter && !isToken) eachNode(part, visit, roleOf(node, name))
    }
  }
}

function roleOf(node: Node, part: string): Role {
  if (part === 'callee') return 'callee'
  const isLabel =
    (node.type === 'MemberExpression' && part === 'property' && !node['computed']) ||
    (node.type === 'KeywordArgumentExpression' && part === 'key') ||
    (node.type === 'Macro' && part === 'name') ||
    part === 'filter' ||
    (node.type === 'TestExpression' && part === 'test')
  return isLabel ? 'label' : 'value'
}

export function listOf(node: Node, name: string): readonly Node[] {
  return (node[name] ?? []) as readonly Node[]
}

export function nameOf(node: unknown): string {
  return String((node as Node | undefined)?.['value'] as string | undefined)
}
