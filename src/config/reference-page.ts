/** Writes the reference page from the declarations. `npm run check` compares it with the file in `docs/reference`. */
import type { OptionGroup } from './group.js'
import type { Option } from './option.js'
import { envOf, flagOf, snakeCase } from './option.js'
import { unreadNames } from './unread-names.js'

export function referencePage(groups: readonly OptionGroup[]): string {
  const head = [
    '# Configuration',
    '',
    'Generated from the declarations in `src/config`; run `npm run docs:config` after changing one.',
    '',
    'A setting may stand in the YAML file, in the environment and on the command line; the last of these that has it is right.',
    'A file has one section per group below; sections named `x-…` may hold what others take by YAML anchors. Switches have a `--no-` form. `none` turns an optional setting off.',
    "Upstream's own flags and environment names are accepted as well; a value under such an environment name that cannot be",
    'read is ignored with a warning, as upstream does.',
  ]
  return [...head, ...groups.flatMap(section), ...unread].join('\n') + '\n'
}

const unread = [
  '',
  "## Upstream's environment names that are not read",
  '',
  'One that is set is named at start, with the reason. A name that ends in `_` stands for all that begin so.',
  '',
  '| Name | Why |',
  '|---|---|',
  ...Object.entries(unreadNames).map(([name, why]) => `| \`${name}\` | ${why} |`),
]

function section(group: OptionGroup): string[] {
  const lines = ['', `## ${group.name}`, '', group.says]
  for (const [name, option] of Object.entries(group.options)) lines.push(...entry(group.name, name, option))
  return lines
}

function entry(group: string, name: string, option: Option): string[] {
  const { env = [], flags = [], noEffect, deprecated } = option.extras
  const also = [...flags, ...env].map((alias) => `\`${alias}\``).join(', ')
  return [
    '',
    `### ${group}.${snakeCase(name)}`,
    '',
    option.says,
    ...(deprecated === undefined ? [] : ['', `Deprecated: ${deprecated}.`]),
    ...(noEffect === undefined ? [] : ['', `Accepted without effect: ${noEffect}.`]),
    '',
    `- Accepts: ${option.accepts}. Default: ${show(option.fallback)}.`,
    `- Flag \`${flagOf(name)}\`, environment \`${envOf(name)}\`.`,
    ...(also === '' ? [] : [`- Also: ${also}.`]),
  ]
}

function show(value: unknown): string {
  return value === undefined ? 'none' : `\`${typeof value === 'string' ? value : JSON.stringify(value)}\``
}
