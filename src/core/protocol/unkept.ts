/**
 * Objects whose names V8 does not keep. It has the names of all objects in one table until a full collection, and a table that is full is
 * built anew in one go, which holds the loop (docs/decisions/0273). Here they lie in a map. The object is read by names that the code knows
 * (`body['stream']`, `Object.hasOwn`); whoever goes over all of them asks `entriesOf`, as `Object.keys` would have V8 keep them after all. So
 * would being asked by a name out of a request, of any object: V8 keeps the name even where nothing is found.
 */
type Fields<T> = Readonly<Record<string, T>>

const fieldsOf = Symbol('fields')

export function unkept<T>(fields: ReadonlyMap<string, T>): Fields<T> {
  return new Proxy(target, new FieldsHandler(fields)) as Fields<T>
}

/** Names and values, of a usual object, too. */
export function entriesOf<T>(object: Fields<T>): Iterable<readonly [name: string, value: T]> {
  return fieldsBehind(object) ?? Object.entries(object)
}

/** The map that it stands for; undefined of a usual object. */
export function fieldsBehind<T>(object: Fields<T>): ReadonlyMap<string, T> | undefined {
  return (object as { readonly [fieldsOf]?: ReadonlyMap<string, T> })[fieldsOf]
}

/** `{ ...base, ...more }`: of what was in a map V8 keeps nothing here either. */
export function merged<T>(base: Fields<T>, more: Fields<T>): Fields<T> {
  if (!fieldsBehind(base) && !fieldsBehind(more)) return { ...base, ...more }
  return unkept(new Map([...entriesOf(base), ...entriesOf(more)]))
}

/** Those of its fields that `isWanted` says yes to. */
export function filtered<T>(object: Fields<T>, isWanted: (name: string, value: T) => boolean): Fields<T> {
  const wanted = [...entriesOf(object)].filter(([name, value]) => isWanted(name, value))
  return fieldsBehind(object) ? unkept(new Map(wanted)) : Object.fromEntries(wanted)
}

/** One for all: nothing is ever written to it. */
const target: object = Object.create(null) as object

class FieldsHandler implements ProxyHandler<object> {
  readonly #fields: ReadonlyMap<string, unknown>

  constructor(fields: ReadonlyMap<string, unknown>) {
    this.#fields = fields
  }

  get(_target: object, name: string | symbol): unknown {
    return typeof name === 'string' ? this.#fields.get(name) : name === fieldsOf ? this.#fields : undefined
  }

  has(_target: object, name: string | symbol): boolean {
    return typeof name === 'string' && this.#fields.has(name)
  }

  getOwnPropertyDescriptor(_target: object, name: string | symbol): PropertyDescriptor | undefined {
    if (!this.has(_target, name)) return undefined
    return { value: this.get(_target, name), enumerable: true, configurable: true, writable: true } // as a proxy must say of what its target lacks
  }

  ownKeys(): string[] {
    return [...this.#fields.keys()]
  }

  set(): boolean {
    return false
  }

  defineProperty(): boolean {
    return false
  }

  deleteProperty(): boolean {
    return false
  }

  /** This and the next would be done to the one target of all. */
  preventExtensions(): boolean {
    return false
  }

  setPrototypeOf(): boolean {
    return false
  }
}
