/**
 * Parses a template: our lexer, the library's parser, and between and behind them what that parser does not know of jinja2. Tests with
 * arguments and `with` travel through it as filters under names that no template can write, and become nodes of their own; `~` binds
 * tighter than `+`; `a < b < c` is two comparisons.
 */
import { parse } from '@huggingface/jinja'
import { hideNames } from './hidden-names.js'
import type { LexToken } from './lexer.js'
import { lex } from './lexer.js'
import type { Node } from './node.js'
import { listOf, nameOf, TemplateSyntaxError } from './node.js'

/** Parsing is the slow part (tens of milliseconds) and its result is plain data, so a thread may do it. */
export function parseTemplate(source: string): Node {
  const tokens = respell(lex(source))
  const parsed = arrange(parse(tokens as unknown as Parameters<typeof parse>[0])) as Node
  checkLeaps(parsed['body'], false)
  return hideNames(parsed)
}

const testLabel = 'is '
const notTestLabel = 'is not '
const withLabel = 'with '
const generationLabel = 'generation '
const endings = new Set(['endwith', 'endgeneration'])

/** The tokens as the library's parser can read them. */
function respell(tokens: readonly LexToken[]): LexToken[] {
  const out: LexToken[] = []
  const ends = bracketEnds(tokens)
  const closesAfter = new Map<number, number>()
  let at = 0
  while (at < tokens.length) {
    const token = tokens[at]!
    const taken = isName(token) ? respellName(token) : 0
    if (taken === 0) out.push(token)
    at += taken || 1
    for (let count = closesAfter.get(at - 1) ?? 0; count > 0; count--)
      out.push({ ...token, type: 'CloseParen', value: ')' })
  }
  return out

  /** How many tokens it stands for; none where it is a name like others. */
  function respellName(token: LexToken): number {
    const before = tokens[at - 1]
    if (before?.type === 'OpenStatement') return respellStatement(token)
    if (before?.type === 'Dot' || tokens[at + 1]?.type === 'Equals') return 0
    if (token.value === 'is') return respellTest(token)
    if (token.value !== 'not' || !isName(tokens[at + 1], 'in')) return 0
    out.push({ ...token, type: 'ComparisonBinaryOperator', value: 'not in' })
    return 2
  }

  /** `x is not eq 3` becomes `x | NAME(3)`: jinja2 reads filters and tests in one row, from left to right. */
  function respellTest(token: LexToken): number {
    let next = at + 1
    const isNegated = isName(tokens[next], 'not')
    if (isNegated) next++
    const test = tokens[next]
    if (!isName(test)) throw new TemplateSyntaxError('a test has a name')
    next++
    out.push({ ...token, type: 'Pipe', value: '|' })
    out.push({ ...test, value: `${isNegated ? notTestLabel : testLabel}${test.value}` })
    const last = endOfOperand(tokens, ends, next)
    if (tokens[next]?.type === 'OpenParen' || last === undefined) return next - at
    if (isName(tokens[next], 'is')) throw new TemplateSyntaxError('tests in a row')
    out.push({ ...token, type: 'OpenParen', value: '(' })
    closesAfter.set(last, (closesAfter.get(last) ?? 0) + 1)
    return next - at
  }

  function refuseChosenItems(): void {
    let first = at
    while (tokens[first] && !isName(tokens[first], 'in')) first++
    const { group } = tokens[at]!
    for (let place = first; tokens[place] && tokens[place]!.type !== 'CloseStatement'; place++)
      if (isName(tokens[place], 'else') && tokens[place]!.group === group)
        throw new TemplateSyntaxError('a choice of items stands in parentheses')
    const last = ends.get(first + 1)
    if (tokens[first + 1]?.type !== 'OpenParen' || last === undefined) return
    if (isLoneChoice(tokens.slice(first + 2, last)))
      throw new TemplateSyntaxError('such a choice of items is not known')
  }

  /** `with a = 1` becomes a filter with arguments. */
  function respellStatement(token: LexToken): number {
    if (endings.has(token.value)) {
      out.push({ ...token, value: 'endfilter' })
      return 1
    }
    if (token.value === 'for') refuseChosenItems()
    const isWith = token.value === 'with'
    if (!isWith && token.value !== 'generation') return 0
    out.push({ ...token, value: 'filter' }, { ...token, value: isWith ? withLabel : generationLabel })
    if (!isWith || tokens[at + 1]?.type === 'CloseStatement') return 1
    out.push({ ...token, type: 'OpenParen', value: '(' })
    let last = at
    while (tokens[last + 1] && tokens[last + 1]!.type !== 'CloseStatement') last++
    closesAfter.set(last, (closesAfter.get(last) ?? 0) + 1)
    return 1
  }
}

/** `(xs if y)` with nothing else: without its parentheses it would be a filter of the loop, and the parser does not tell them apart. */
function isLoneChoice(tokens: readonly LexToken[]): boolean {
  const words = tokens.filter((it) => isName(it) && it.group === tokens[0]?.group).map(({ value }) => value)
  return words.includes('if') && !words.includes('else')
}

function isName(token: LexToken | undefined, value?: string): token is LexToken {
  return token?.type === 'Identifier' && (value === undefined || token.value === value)
}

/** Where each bracket ends, by its place. */
function bracketEnds(tokens: readonly LexToken[]): ReadonlyMap<number, number> {
  const ends = new Map<number, number>()
  const open: number[] = []
  for (const [place, { type }] of tokens.entries()) {
    if (/^Open(Paren|Square|Curly)/.test(type)) open.push(place)
    else if (/^Close(Paren|Square|Curly)/.test(type)) ends.set(open.pop()!, place)
  }
  return ends
}

const operandTypes = new Set(['Identifier', 'NumericLiteral', 'StringLiteral', 'OpenSquareBracket', 'OpenCurlyBracket'])

/** The last token of an operand that begins here, with its attributes, items and calls; undefined where none begins. */
function endOfOperand(
  tokens: readonly LexToken[],
  ends: ReadonlyMap<number, number>,
  first: number,
): number | undefined {
  const token = tokens[first]
  if (!token || !operandTypes.has(token.type)) return undefined
  if (isName(token) && ['else', 'or', 'and'].includes(token.value)) return undefined
  let last = ends.get(first) ?? first
  while (token.type === 'StringLiteral' && tokens[last + 1]?.type === 'StringLiteral') last++
  for (;;) {
    const next = tokens[last + 1]
    if (next?.type === 'Dot') last += 2
    else if (next?.type === 'OpenParen' || next?.type === 'OpenSquareBracket') last = ends.get(last + 1)!
    else return last
  }
}

interface Operator {
  readonly value: string
  readonly group: number
}

const comparisons = new Set(['==', '!=', '<', '<=', '>', '>=', 'in', 'not in'])

/** The tree as jinja2 would have it; shared with nobody. */
function arrange(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(arrange)
  if (value instanceof Map)
    return new Map([...(value as Map<unknown, unknown>)].map(([a, b]) => [arrange(a), arrange(b)]))
  if (typeof value !== 'object' || value === null || !('type' in value)) return value
  const node = { ...(value as Node) } as Record<string, unknown> & Node
  for (const [name, part] of Object.entries(node)) if (name !== 'operator') node[name] = arrange(part)
  if (node.type === 'BinaryExpression') return arrangeBinary(node)
  if (node.type === 'FilterExpression') return arrangeFilter(node)
  return node.type === 'FilterStatement' ? arrangeStatement(node) : node
}

function arrangeBinary(node: Node): Node {
  const { operator, left, right } = node as unknown as Binary
  const inner = left.type === 'BinaryExpression' ? (left as unknown as Binary) : undefined
  if (inner?.operator.group !== operator.group) return node
  if (operator.value === '~' && (inner.operator.value === '+' || inner.operator.value === '-')) {
    return { ...left, right: { ...node, left: inner.right } }
  }
  if (!comparisons.has(operator.value)) return node
  // Of a chain that is arranged already, the last comparison.
  const isChain = inner.operator.value === chained
  const last = isChain ? (inner.right as unknown as Binary) : inner
  if (!isChain && !comparisons.has(inner.operator.value)) return node
  return { ...node, operator: { ...operator, value: chained }, right: { ...node, left: last.right, right } }
}

interface Binary {
  readonly operator: Operator
  readonly left: Node
  readonly right: Node
}

const chained = 'and'

function arrangeFilter(node: Node): Node {
  const { label, args } = calledFilter(node)
  if (!label.startsWith(testLabel)) return node
  const negate = label.startsWith(notTestLabel)
  const name = label.slice((negate ? notTestLabel : testLabel).length)
  return { type: 'TestExpression', operand: node['operand'], negate, test: { type: 'Identifier', value: name }, args }
}

function arrangeStatement(node: Node): Node {
  const { label, args } = calledFilter(node)
  if (label === generationLabel) return { type: 'Generation', body: node['body'] }
  if (label !== withLabel) return node
  const names = args.map((it) => {
    if (it.type !== 'KeywordArgumentExpression') throw new TemplateSyntaxError('with wants names')
    return nameOf(it['key'])
  })
  return { type: 'With', names, values: args.map((it) => it['value']), body: node['body'] }
}

function calledFilter(node: Node): { readonly label: string; readonly args: readonly Node[] } {
  const filter = node['filter'] as Node
  const isCall = filter.type === 'CallExpression'
  return { label: nameOf(isCall ? filter['callee'] : filter), args: isCall ? listOf(filter, 'args') : [] }
}

/**
 * `break` and `continue` leave a loop of the same Python function, or the template does not compile there. Out of a block whose text is
 * kept they leave that text behind, which nobody means.
 */
function checkLeaps(nodes: unknown, isLoop: boolean): void {
  for (const node of (nodes ?? []) as readonly Node[]) {
    if (node.type === 'Break' || node.type === 'Continue') {
      if (!isLoop) throw new TemplateSyntaxError(`${node.type.toLowerCase()} outside of a loop`)
    } else if (node.type === 'For') {
      checkLeaps(node['body'], true)
      checkLeaps(node['defaultBlock'], isLoop)
    } else {
      const isOpen = node.type === 'If' || node.type === 'With'
      checkLeaps(node['body'], isOpen && isLoop)
      checkLeaps(node['alternate'], isOpen && isLoop)
    }
  }
}
