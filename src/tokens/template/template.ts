/** A chat template, ready to render: parsed, compiled, run within limits. */
import { entriesOf } from '../../core/protocol/index.js'
import type { Statement } from './compile.js'
import { compileBlock } from './compile.js'
import { metered, spend } from './meter.js'
import { count } from './methods.js'
import type { Node } from './node.js'
import type { RunLimits } from './run.js'
import { numberOf, Run, Scope } from './run.js'
import { str } from './spell.js'
import { strftime } from './strftime.js'
import { planTurns } from './turn-plan.js'
import type { Turns } from './turns.js'
import type { Value } from './values.js'
import { dictEntries, isDict, Namespace, Range, TemplateError } from './values.js'

export interface RenderOptions {
  readonly limits: RunLimits
  /** Monotonic milliseconds, for the deadline. */
  readonly now: () => number
  /** The time that `strftime_now` shows. */
  readonly date: () => Date
}

export class Template {
  /** Loops whose turns can be taken from an earlier rendering. */
  readonly replayedLoops: number
  readonly #body: Statement

  constructor(parsed: Node) {
    const plans = planTurns(parsed)
    this.replayedLoops = plans.size
    this.#body = compileBlock(parsed['body'], plans)
  }

  /** `constants` are the same for every rendering, see `newConstants`; `turns` are what is known of an earlier one. */
  render(
    variables: Readonly<Record<string, Value>>,
    options: RenderOptions,
    constants: Scope = plain,
    turns?: Turns,
  ): string {
    const run = new Run(options.limits, options.now, turns)
    const scope = new Scope(constants)
    scope.set(strftimeName, (args, named) => {
      const [format] = args
      if (args.length !== 1 || named.size > 0 || typeof format !== 'string')
        throw new TemplateError('strftime_now wants a format')
      return strftime(options.date(), format)
    })
    for (const [name, value] of entriesOf(variables)) scope.setNamed(name, value)
    metered(run, () => this.#body(scope, run))
    return run.out
  }
}

/** The functions that every template has, and what else never changes for a model. */
export function newConstants(values: Readonly<Record<string, Value>>): Scope {
  const scope = new Scope()
  for (const [name, value] of Object.entries({ ...globals, ...values })) scope.set(numberOf(name), value)
  return scope
}

const strftimeName = numberOf('strftime_now')
const rangeMax = 100_000 // jinja2's sandbox refuses longer ones

/** jinja2 has some that no chat needs: they are there, and cannot be called. */
function unknownFunction(): Value {
  throw new TemplateError('such a function is not known')
}

const globals: Readonly<Record<string, Value>> = {
  raise_exception: (args) => {
    throw new TemplateError(str(args[0]))
  },
  ...Object.fromEntries(['lipsum', 'cycler', 'joiner'].map((name) => [name, unknownFunction])),
  namespace: (args, named) => new Namespace(dictOf(args, named) as Map<string, Value>),
  dict: dictOf,
  range,
}

function range(args: readonly Value[], named: ReadonlyMap<string, Value>): Value {
  if (args.length === 0 || args.length > 3 || named.size > 0) throw new TemplateError('range wants one to three ints')
  const [first, second, by = 1] = args.map(count)
  const [from, to] = second === undefined ? [0, first!] : [first!, second]
  if (by === 0 || !Number.isSafeInteger(to - from)) throw new TemplateError('such a range is not known')
  const length = Math.max(0, Math.ceil((to - from) / by))
  if (length > rangeMax) throw new TemplateError('range too big')
  spend(length >>> 2)
  return Range.from({ length }, (_, index) => from + index * by) as Range
}

/** `dict(...)`: of a mapping, then of names. */
function dictOf(args: readonly Value[], named: ReadonlyMap<string, Value>): Map<Value, Value> {
  const [first, ...more] = args.length === 0 ? [{}] : args
  if (!isDict(first) || more.length > 0) throw new TemplateError('dict wants a mapping')
  return new Map<Value, Value>([...dictEntries(first), ...named])
}

const plain: Scope = newConstants({})
