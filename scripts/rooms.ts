/** The rooms of the house, from the top floor down. An import may point to a lower floor only. */
export const floors: readonly (readonly string[])[] = [
  ['cli'],
  ['services'],
  ['sim'],
  ['server'],
  ['proof'],
  ['tokens'],
  ['routing'],
  ['engines'],
  ['events'],
  ['cluster'],
  ['config'],
  ['telemetry'],
  ['core/router'],
  ['core/queue'],
  ['core/selection'],
  ['core/load', 'core/sessions', 'core/prefill'],
  ['core/sequences', 'core/index'],
  ['core/hashing'],
  ['core/protocol'],
]

/** Packages that the pure core may use: computation only, no I/O, no install script. */
export const corePackages: readonly string[] = ['@noble/hashes']

/** The room that a path under `src/` belongs to; package entries such as `index.ts` and `core/index.ts` belong to none. */
export function roomOf(path: string): string | undefined {
  const parts = path.split('/')
  if (parts[0] === 'core') return parts.length > 2 ? `core/${parts[1]}` : undefined
  return parts.length > 1 ? parts[0] : undefined
}

export function floorOf(room: string): number {
  return floors.findIndex((rooms) => rooms.includes(room))
}
