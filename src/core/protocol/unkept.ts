/**
 * Objects whose names V8 does not keep. It has the names of all objects in one table until a full collection, and a table that is full is
 * built anew in one go, which holds the loop (docs/decisions/0273). Here they lie in a map. The object is read by names that the code knows
 * (`body['stream']`, `Object.hasOwn`); whoever goes over all of them asks `entriesOf`, as `Object.keys` would have V8 keep them after all. So
 * would being asked by a name out of a request, of any object: V8 keeps the name even where nothing is found.
 */
type Fields<T> = Readonly<Record<string, T>>

const fieldsOf = Symbol('fields')
const usualFieldsMax = 64

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
  if (fieldsBehind(base) || fieldsBehind(more)) return unkept(new Map([...entriesOf(base), ...entriesOf(more)]))
  if (Object.keys(base).length + Object.keys(more).length <= usualFieldsMax) return { ...base, ...more }
  return objectOf([...Object.entries(base), ...Object.entries(more)])
}

/**
 * `Object.fromEntries` for names out of a request. V8 has a shape for each name that is added, with a list of all those before it, up to a
 * thousand of them: 3.5 ms and megabytes of garbage for every copy of such an object (docs/decisions/0280). One without a prototype has no shapes.
 */
export function objectOf<T>(entries: readonly (readonly [name: string, value: T])[]): Fields<T> {
  if (entries.length <= usualFieldsMax) return Object.fromEntries(entries)
  const object = Object.create(null) as Record<string, T>
  for (const [name, value] of entries) object[name] = value
  return object
}

/** Those of its fields that `isWanted` says yes to. */
export function filtered<T>(object: Fields<T>, isWanted: (name: string, value: T) => boolean): Fields<T> {
  const wanted = [...entriesOf(object)].filter(([name, value]) => isWanted(name, value))
  return fieldsBehind(object) ? unkept(new Map(wanted)) : objectOf(wanted)
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
