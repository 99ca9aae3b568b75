/**
 * JSON as a tree that is spelled here: `1.0`, `1e400`, a name that is given twice and names that look like numbers would not outlive an object
 * of JavaScript.
 */
import type { randomFrom } from '../../bench/tokens/texts.js'

export type Random = ReturnType<typeof randomFrom>

/** JSON that is spelled already, a list, or the fields of an object. */
export type Tree = string | readonly Tree[] | Fields

export class Fields {
  readonly entries: readonly (readonly [name: string, value: Tree])[]
  constructor(entries: readonly (readonly [name: string, value: Tree])[]) {
    this.entries = entries
  }
}

export function spell(tree: Tree): string {
  if (typeof tree === 'string') return tree
  if (!(tree instanceof Fields)) return `[${tree.map(spell).join(',')}]`
  return `{${tree.entries.map(([name, value]) => `${JSON.stringify(name)}:${spell(value)}`).join(',')}}`
}

/** Every tree that lacks one item or field of this one, the largest first. */
export function* smaller(tree: Tree): Generator<Tree> {
  if (typeof tree === 'string') return
  if (!(tree instanceof Fields)) {
    for (const [at, item] of tree.entries()) {
      yield tree.toSpliced(at, 1)
      for (const less of smaller(item)) yield tree.with(at, less)
    }
    return
  }
  const { entries } = tree
  for (const [at, [name, value]] of entries.entries()) {
    yield new Fields(entries.toSpliced(at, 1))
    for (const less of smaller(value)) yield new Fields(entries.with(at, [name, less]))
  }
}

export type Entries = readonly (readonly [name: string, value: Tree])[]

export function object(fields: Readonly<Record<string, Tree>>, more: Entries = []): Fields {
  return new Fields([...Object.entries(fields), ...more])
}

export function text(value: string): Tree {
  return JSON.stringify(value)
}

export function oneOf<T>(items: readonly T[], random: Random): T {
  return items[random(items.length)]!
}

/** Of fields; most are hard on objects of JavaScript. */
// biome-ignore format: a list of names
export const names: readonly string[] = ['a', 'b', 'type', 'name', 'text', 'content', 'description', '__proto__', 'toString', 'constructor', 'hasOwnProperty', 'valueOf', 'length', '0', '7', '10', '4294967295', '-1', '1e3', '1.0', '', 'é', 'a b', '東', '\n']
const odd: readonly Tree[] = ['null', '0', '1', '1.0', '""', '"x"', 'true', 'false', '"yes"', '"0"', [], new Fields([])]

/** The same request with one of its values, at any depth, left out, doubled or replaced, or with a field more. */
export function changed(tree: Tree, random: Random): Tree {
  if (typeof tree === 'string') return odd[random(odd.length)]!
  const isFields = tree instanceof Fields
  const size = isFields ? tree.entries.length : tree.length
  if (size === 0) return odd[random(odd.length)]!
  const at = random(size)
  if (!isFields) {
    const item = tree[at]!
    const ways = [
      () => tree.toSpliced(at, 1),
      () => tree.toSpliced(at, 0, item),
      () => tree.with(at, changed(item, random)),
    ]
    return ways[Math.min(random(5), 2)]!()
  }
  const { entries } = tree
  const [name, value] = entries[at]!
  const ways = [
    () => entries.toSpliced(at, 1),
    () => entries.with(at, [name, odd[random(odd.length)]!]),
    () => [...entries, [oneOf(names, random), odd[random(odd.length)]!] as const],
    () => [...entries, [name, odd[random(odd.length)]!] as const],
    () => entries.with(at, [name, changed(value, random)]),
  ]
  return new Fields(ways[Math.min(random(9), 4)]!())
}
