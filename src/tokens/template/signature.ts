/** What a filter or method of Python takes: its parameters by name and order, with what they are where nobody says. */
import type { Value } from './values.js'
import { TemplateError } from './values.js'

/** Stands for what has to be given. */
export const needed: unique symbol = Symbol('needed')
export type Parameters = Readonly<Record<string, Value | typeof needed>>
export type Given<Self> = (self: Self, args: readonly Value[], named: ReadonlyMap<string, Value>) => Value
export type Bound<Self> = (self: Self, args: readonly Value[]) => Value

/** Hands over every parameter in its order. Python raises where one is missing, unknown, given twice or one too many, so do we. */
export function taking<Self>(parameters: Parameters, call: Bound<Self>, isNamed = true): Given<Self> {
  const names = Object.keys(parameters)
  const defaults = Object.values(parameters)
  const neededCount = defaults.filter((it) => it === needed).length
  const plain = defaults as readonly Value[]
  return (self, args, named) => {
    if (named.size === 0 && args.length === names.length) return call(self, args)
    if (named.size === 0 && args.length === 0 && neededCount === 0) return call(self, plain)
    if (args.length > names.length) throw new TemplateError('too many arguments')
    if (named.size > 0 && !isNamed) throw new TemplateError('it takes no names')
    for (const name of named.keys())
      if (names.indexOf(name) < args.length) throw new TemplateError(`an argument is unknown or given twice: ${name}`)
    return call(
      self,
      names.map((name, index) => {
        if (index < args.length) return args[index]
        const value = named.has(name) ? named.get(name) : defaults[index]
        if (value === needed) throw new TemplateError(`an argument is missing: ${name}`)
        return value as Value
      }),
    )
  }
}
