/** One declaration per option; file, environment and flags in, plain typed objects out. */
export { groups } from './groups.js'
export { loadConfig } from './load.js'
export type { ConfigSources, LoadedConfig } from './load.js'
export { readConfigFile } from './read-config-file.js'
export { readPolicyConfig } from './read-policy-config.js'
export { referencePage } from './reference-page.js'
export { describeOrigin } from './sources.js'
export type { Origin } from './sources.js'
