/**
 * Which names jinja2 hides in a template. Whoever sets a name without a condition owns it from the beginning of its block: until then
 * the loops, macros and blocks inside read nothing, although the request gave a variable of that name. Where the block itself reads the
 * name first, or sets it on a condition, they read that variable. This follows the symbols of jinja2's compiler (`idtracking.py`).
 */
import type { Node } from './node.js'
import { eachNode, listOf, nameOf, targetNames } from './node.js'

/** Lets every block begin with what it hides. */
export function hideNames(program: Node): Node {
  return { ...program, body: hide(new Frame(), program['body'] as readonly Node[]) }
}

class Frame {
  readonly refs: Set<string>
  readonly stores: Set<string>
  readonly hidden: Set<string>
  readonly #parent: Frame | undefined

  constructor(parent?: Frame, like?: Frame) {
    this.#parent = parent
    this.refs = new Set(like?.refs)
    this.stores = new Set(like?.stores)
    this.hidden = new Set(like?.hidden)
  }

  has(name: string): boolean {
    return this.refs.has(name) || (this.#parent?.has(name) ?? false)
  }

  copy(): Frame {
    return new Frame(this.#parent, this)
  }

  load(name: string): void {
    if (!this.has(name)) this.refs.add(name)
  }

  store(name: string): void {
    this.stores.add(name)
    if (!this.has(name)) this.hidden.add(name)
    this.refs.add(name)
  }

  declare(names: Iterable<string>): void {
    for (const name of names) {
      this.stores.add(name)
      this.refs.add(name)
    }
  }

  /** What a branch is the first to set is not hidden: the other may be taken. */
  merge(branches: readonly Frame[]): void {
    for (const { refs } of branches) for (const name of refs) this.refs.add(name)
    for (const { stores } of branches) for (const name of stores) this.stores.add(name)
  }
}

/** Reads a block, then the blocks inside it; answers its statements with what it hides before them. */
function hide(frame: Frame, nodes: readonly Node[]): Node[] {
  for (const node of nodes) read(frame, node)
  const inner = new Set<string>()
  const statements = nodes.map((node) => hideInside(frame, node, inner))
  const names = [...frame.hidden].filter((name) => inner.has(name))
  return names.length > 0 ? [{ type: 'Hide', names }, ...statements] : statements
}

/** What a statement reads and sets in the block that it stands in. */
function read(frame: Frame, node: Node): void {
  switch (node.type) {
    case 'If':
      readIf(frame, node)
      return
    case 'For': {
      const iterable = node['iterable'] as Node
      load(frame, iterable.type === 'SelectExpression' ? iterable['lhs'] : iterable)
      return
    }
    case 'Set':
      if (node['value']) load(frame, node['value'])
      storeTarget(frame, node['assignee'] as Node)
      return
    case 'Macro':
      frame.store(nameOf(node['name']))
      return
    case 'CallStatement':
      load(frame, node['call'])
      return
    case 'FilterStatement':
      load(frame, (node['filter'] as Node)['args'])
      return
    case 'With':
      load(frame, node['values'])
      return
    case 'Generation':
      return
    default:
      load(frame, node)
  }
}

function readIf(frame: Frame, node: Node): void {
  load(frame, node['test'])
  const branches = ['body', 'alternate'].map((name) => {
    const branch = frame.copy()
    for (const it of listOf(node, name)) read(branch, it)
    return branch
  })
  frame.merge(branches)
}

function storeTarget(frame: Frame, target: Node): void {
  if (target.type === 'MemberExpression') load(frame, target['object'])
  else for (const name of targetNames(target)) frame.store(name)
}

const constants = new Set(['true', 'True', 'false', 'False', 'none', 'None'])

function load(frame: Frame, expression: unknown): void {
  eachNode(expression, (node, role) => {
    if (node.type === 'Identifier' && role !== 'label' && !constants.has(nameOf(node))) frame.load(nameOf(node))
  })
}

/** The statement with the blocks inside it; `inner` collects the names that they speak of. */
function hideInside(frame: Frame, node: Node, inner: Set<string>): Node {
  const block = (name: string, prepare?: (own: Frame) => void): Node[] => {
    const nodes = listOf(node, name)
    eachNode(nodes, (it) => {
      if (it.type === 'Identifier') inner.add(nameOf(it))
    })
    const own = new Frame(frame)
    prepare?.(own)
    return hide(own, nodes)
  }
  const same = (name: string): Node[] => listOf(node, name).map((it) => hideInside(frame, it, inner))
  switch (node.type) {
    case 'If':
      return { ...node, body: same('body'), alternate: same('alternate') }
    case 'For': {
      const iterable = node['iterable'] as Node
      eachNode(iterable['test'], (it) => {
        if (it.type === 'Identifier') inner.add(nameOf(it))
      })
      const declare = (own: Frame): void => own.declare([...targetNames(node['loopvar'] as Node), 'loop'])
      return { ...node, body: block('body', declare), defaultBlock: block('defaultBlock') }
    }
    case 'Macro':
      return { ...node, body: block('body', (own) => declareParameters(own, listOf(node, 'args'))) }
    case 'CallStatement':
      return { ...node, body: block('body', (own) => declareParameters(own, listOf(node, 'callerArgs'))) }
    case 'With':
      return { ...node, body: block('body', (own) => own.declare(node['names'] as readonly string[])) }
    case 'FilterStatement':
    case 'Generation':
      return { ...node, body: block('body') }
    default:
      return node.type === 'Set' && !node['value'] ? { ...node, body: block('body') } : node
  }
}

function declareParameters(frame: Frame, parameters: readonly Node[]): void {
  frame.declare(['caller', 'kwargs', 'varargs'])
  for (const it of parameters) {
    frame.declare([nameOf(it.type === 'Identifier' ? it : it['key'])])
    if (it.type !== 'Identifier') load(frame, it['value'])
  }
}
