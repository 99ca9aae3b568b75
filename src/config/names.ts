/** Every name by which an option can be set, over all groups. Two options never share one: that is a bug, found at start. */
import { invariant } from '../core/protocol/index.js'
import type { OptionGroup } from './group.js'
import type { Option } from './option.js'
import { envOf, flagOf, snakeCase } from './option.js'

export interface NamedOption {
  readonly group: string
  /** Camel case, as in code. */
  readonly name: string
  /** `group.name` in snake case, as in the file. */
  readonly key: string
  readonly option: Option
}

export interface OptionNames {
  readonly all: readonly NamedOption[]
  readonly byKey: ReadonlyMap<string, NamedOption>
  readonly byFlag: ReadonlyMap<string, NamedOption>
  readonly byOwnEnv: ReadonlyMap<string, NamedOption>
}

export function nameOptions(groups: readonly OptionGroup[]): OptionNames {
  const all: NamedOption[] = []
  const byKey = new Map<string, NamedOption>()
  const byFlag = new Map<string, NamedOption>()
  const byOwnEnv = new Map<string, NamedOption>()
  const upstreamEnv = new Map<string, NamedOption>()
  for (const group of groups) {
    for (const [name, option] of Object.entries(group.options)) {
      const named = { group: group.name, name, key: `${group.name}.${snakeCase(name)}`, option }
      all.push(named)
      add(byKey, named.key, named)
      for (const flag of [flagOf(name), ...(option.extras.flags ?? [])]) add(byFlag, flag, named)
      add(byOwnEnv, envOf(name), named)
      for (const env of option.extras.env ?? []) add(upstreamEnv, env, named)
    }
  }
  return { all, byKey, byFlag, byOwnEnv }
}

function add(names: Map<string, NamedOption>, name: string, option: NamedOption): void {
  const other = names.get(name)
  invariant(other === undefined || other === option, `${name} would set both ${other?.key} and ${option.key}`)
  names.set(name, option)
}
