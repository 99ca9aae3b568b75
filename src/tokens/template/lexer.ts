/**
 * Cuts a template into the tokens that the library's parser reads, as the lexer of jinja2 3.1 cuts it inside `transformers`
 * (`trim_blocks`, `lstrip_blocks`). The library's own lexer works by replacing in the text: a line that ends in `-}` loses its end,
 * `{%+`, `raw`, `1e3` and `\u00e9` are unknown to it, and what it strips is white space by JavaScript.
 */
import { isSpace, strip } from './methods.js'
import { TemplateSyntaxError } from './node.js'

export interface LexToken {
  readonly type: string
  readonly value: string
  /** Number of the innermost bracket that it stands in, or of its tag: `(a == b) == c` is no chain. */
  readonly group: number
}

export function lex(given: string): LexToken[] {
  return new Lexer(given).run()
}

const operators: readonly (readonly [string, string])[] = [
  ['**', 'ExponentiationBinaryOperator'],
  ['//', 'MultiplicativeBinaryOperator'],
  ['==', 'ComparisonBinaryOperator'],
  ['!=', 'ComparisonBinaryOperator'],
  ['<=', 'ComparisonBinaryOperator'],
  ['>=', 'ComparisonBinaryOperator'],
  ['<', 'ComparisonBinaryOperator'],
  ['>', 'ComparisonBinaryOperator'],
  ['+', 'AdditiveBinaryOperator'],
  ['-', 'AdditiveBinaryOperator'],
  ['~', 'AdditiveBinaryOperator'],
  ['*', 'MultiplicativeBinaryOperator'],
  ['/', 'MultiplicativeBinaryOperator'],
  ['%', 'MultiplicativeBinaryOperator'],
  ['=', 'Equals'],
  ['(', 'OpenParen'],
  [')', 'CloseParen'],
  ['[', 'OpenSquareBracket'],
  [']', 'CloseSquareBracket'],
  ['{', 'OpenCurlyBracket'],
  ['}', 'CloseCurlyBracket'],
  [',', 'Comma'],
  ['.', 'Dot'],
  [':', 'Colon'],
  ['|', 'Pipe'],
]
const closers: Readonly<Record<string, string>> = { '(': ')', '[': ']', '{': '}' }

// Sticky: each looks at one place only.
const float = /(?:\d+_)*\d+(?:(?:\.(?:\d+_)*\d+)?e[+-]?(?:\d+_)*\d+|\.(?:\d+_)*\d+)/iy
const integer = /0b(?:_?[01])+|0o(?:_?[0-7])+|0x(?:_?[\da-f])+|[1-9](?:_?\d)*|0(?:_?0)*/iy
const name = /[A-Za-z_][A-Za-z0-9_]*/y
const text = /'[^'\\]*(?:\\.[^'\\]*)*'|"[^"\\]*(?:\\.[^"\\]*)*"/sy

class Lexer {
  readonly #source: string
  readonly #tokens: LexToken[] = []
  #at = 0
  #groups = 0
  /** Whether what was read last ended a line. */
  #isLineStart = true

  constructor(given: string) {
    this.#source = given.replaceAll(/\r\n?/g, '\n').replace(/\n$/, '')
  }

  run(): LexToken[] {
    while (this.#at < this.#source.length) this.#root()
    return this.#tokens
  }

  /** Text up to the next tag, and the tag. */
  #root(): void {
    const source = this.#source
    const opens = /\{[#%{]/g
    opens.lastIndex = this.#at
    const begin = opens.exec(source)?.index ?? source.length
    const before = source.slice(this.#at, begin)
    if (begin === source.length) {
      this.#text(before)
      this.#at = begin
      return
    }
    const kind = source[begin + 1]!
    const sign = /[-+]/.exec(source[begin + 2] ?? '')?.[0] ?? ''
    this.#text(this.#strippedBefore(before, sign, kind !== '{'))
    this.#at = begin + 2 + sign.length
    if (kind === '#') this.#comment()
    else if (kind === '{') this.#tag('Expression', '}}')
    else if (!this.#raw()) this.#tag('Statement', '%}')
  }

  /** What `-` takes of the text before a tag, or, without `+`, the white space that it stands behind in its line. */
  #strippedBefore(before: string, sign: string, isBlock: boolean): string {
    if (sign === '-') return strip(before, null, false, true)
    if (sign === '+' || !isBlock) return before
    const line = before.lastIndexOf('\n') + 1
    return (line > 0 || this.#isLineStart) && isBlank(before, line) ? before.slice(0, line) : before
  }

  #comment(): void {
    const end = this.#source.indexOf('#}', this.#at)
    if (this.#at === this.#source.length) return // jinja2 does not miss the end of nothing
    if (end < 0) throw new TemplateSyntaxError('a comment does not end')
    const sign = end > this.#at ? this.#source[end - 1]! : ''
    this.#after(end + 2, sign, true)
  }

  #raw(): boolean {
    const source = this.#source
    const begins = /\s*raw\s*(-?)%\}/y
    begins.lastIndex = this.#at
    const begin = begins.exec(source)
    if (!begin) return false
    this.#after(begins.lastIndex, begin[1]!, false)
    const ends = /\{%([-+]?)\s*endraw\s*([-+]?)%\}/g
    ends.lastIndex = this.#at
    const end = ends.exec(source)
    if (this.#at === source.length) return true
    if (!end) throw new TemplateSyntaxError('raw does not end')
    this.#text(this.#strippedBefore(source.slice(this.#at, end.index), end[1]!, true))
    this.#after(ends.lastIndex, end[2]!, true)
    return true
  }

  /** Goes on behind a tag: `-` takes the white space there, and blocks without `+` the end of their line. */
  #after(place: number, sign: string, isBlock: boolean): void {
    this.#at = place
    if (sign === '-') this.#skipSpace()
    else if (isBlock && sign !== '+' && this.#source[this.#at] === '\n') this.#at++
    this.#isLineStart = this.#source[this.#at - 1] === '\n'
  }

  #tag(kind: string, end: '%}' | '}}'): void {
    const closing: string[] = []
    const groups = [++this.#groups]
    const push = (type: string, value: string): void => void this.#tokens.push({ type, value, group: groups.at(-1)! })
    push(`Open${kind}`, end === '%}' ? '{%' : '{{')
    for (;;) {
      this.#skipSpace()
      // Brackets that are open hold the end of a tag back: `{{ {'a': {}} }}`.
      const sign = closing.length === 0 ? this.#signOfEnd(end) : undefined
      if (sign !== undefined) {
        push(`Close${kind}`, end)
        this.#after(this.#at + sign.length + 2, sign, end === '%}')
        return
      }
      const [type, value] = this.#literal() ?? this.#operator()
      if (type.startsWith('Close')) {
        if (closing.pop() !== value) throw new TemplateSyntaxError(`unexpected ${value}`)
        groups.pop()
      }
      push(type, value)
      if (type.startsWith('Open')) {
        closing.push(closers[value]!)
        groups.push(++this.#groups)
      }
    }
  }

  /** The sign before the end of a tag, where that is here; for expressions `+` is none. */
  #signOfEnd(end: '%}' | '}}'): string | undefined {
    const source = this.#source
    if (source.startsWith(end, this.#at)) return ''
    const sign = source[this.#at]
    const isSign = sign === '-' || (sign === '+' && end === '%}')
    return isSign && source.startsWith(end, this.#at + 1) ? sign : undefined
  }

  #literal(): readonly [string, string] | undefined {
    const isMember = this.#source[this.#at - 1] === '.' // `list.0.1` has no fraction in it
    const fraction = isMember ? undefined : this.#match(float)
    if (fraction !== undefined) return ['NumericLiteral', spellFloat(fraction)]
    const whole = this.#match(integer)
    if (whole !== undefined) return ['NumericLiteral', spellInteger(whole)]
    const word = this.#match(name)
    if (word !== undefined) return ['Identifier', word]
    const quoted = this.#match(text)
    return quoted === undefined ? undefined : ['StringLiteral', unescape(quoted.slice(1, -1))]
  }

  #operator(): readonly [string, string] {
    const found = operators.find(([value]) => this.#source.startsWith(value, this.#at))
    if (!found) throw new TemplateSyntaxError(`unexpected ${this.#source[this.#at] ?? 'end'}`)
    this.#at += found[0].length
    return [found[1], found[0]]
  }

  #match(pattern: RegExp): string | undefined {
    pattern.lastIndex = this.#at
    const found = pattern.exec(this.#source)?.[0]
    this.#at += found?.length ?? 0
    return found
  }

  #skipSpace(): void {
    while (this.#at < this.#source.length && isSpace(this.#source[this.#at]!)) this.#at++
  }

  #text(value: string): void {
    if (value !== '') this.#tokens.push({ type: 'Text', value, group: 0 })
  }
}

function isBlank(value: string, from: number): boolean {
  for (let at = from; at < value.length; at++) if (!isSpace(value[at]!)) return false
  return from < value.length
}

/** The parser takes what has a point for a float. */
function spellFloat(written: string): string {
  const plain = written.replaceAll('_', '')
  if (!Number.isFinite(Number(plain))) throw new TemplateSyntaxError('so large a number is not known')
  return plain.includes('.') ? plain : plain.replace(/e/i, '.e')
}

function spellInteger(written: string): string {
  const value = Number(written.replaceAll('_', ''))
  if (!Number.isSafeInteger(value)) throw new TemplateSyntaxError('so large a number is not known')
  return String(value)
}

const escapes: Readonly<Record<string, string>> = {
  a: '\x07',
  b: '\b',
  f: '\f',
  n: '\n',
  r: '\r',
  t: '\t',
  v: '\v',
  '\\': '\\',
  "'": "'",
  '"': '"',
  '\n': '',
}
const escaped = /\\(?:([0-7]{1,3})|x([\da-fA-F]{2})|u([\da-fA-F]{4})|U([\da-fA-F]{8})|(.))/gs

/** What Python's `unicode-escape` makes of it: an escape that it does not know stays as it is written. */
function unescape(written: string): string {
  if (!written.includes('\\')) return written
  return written.replaceAll(
    escaped,
    (whole, octal?: string, byte?: string, short?: string, long?: string, char?: string) => {
      if (char !== undefined) {
        if (/[xuUN]/.test(char)) throw new TemplateSyntaxError(`unknown escape: ${whole}`)
        return escapes[char] ?? whole
      }
      const code = octal === undefined ? Number.parseInt((byte ?? short ?? long)!, 16) : Number.parseInt(octal, 8)
      if (code > 0x10_ffff || (code >= 0xd800 && code < 0xe000))
        throw new TemplateSyntaxError(`unknown escape: ${whole}`)
      return String.fromCodePoint(code)
    },
  )
}
