/** Where the settings allow a model's tokenizer to come from. */
import { homedir } from 'node:os'
import { join } from 'node:path'
import type { ServeConfig } from '../../config/index.js'
import { WarmrouteError } from '../../core/protocol/index.js'
import type { ModelSources } from '../../tokens/index.js'
import { hasTokenizer } from '../../tokens/index.js'

export type TokenPlaces = Pick<ModelSources, 'path' | 'hubCache' | 'hub'> & {
  /** Folders by model, before `path`. */
  readonly paths?: Readonly<Record<string, string>>
}
type Env = Readonly<Record<string, string | undefined>>

export function tokenPlacesOf(config: ServeConfig, env: Env = process.env): TokenPlaces {
  const { tokenizer: path, hubDownload, hubEndpoint: endpoint, hubToken: token } = config
  const hubCache = config.hubCache ?? defaultHubCache(env)
  return {
    path,
    paths: config.tokenizers,
    hubCache,
    hub: hubDownload ? { endpoint, cacheFolder: hubCache, token } : undefined,
  }
}

/** Throws `WR_INVALID_CONFIG`: whoever names a folder means it, and the engine would be asked instead without a word. */
export async function proveTokenizers({ path, paths = {} }: TokenPlaces): Promise<void> {
  const named: [setting: string, folder: string][] = Object.entries(paths).map(([model, it]) => [
    `tokenizers.${model}`,
    it,
  ])
  if (path !== undefined) named.unshift(['tokenizer', path])
  const issues = []
  for (const [field, folder] of named)
    if (!(await hasTokenizer(folder))) issues.push({ field, message: `${field}: ${folder} has no tokenizer.json` })
  if (issues.length === 0) return
  const reason = issues.map(({ message }) => message).join('; ')
  throw new WarmrouteError('WR_INVALID_CONFIG', { reason, issues })
}

/** The places of one model. */
export function placesFor(model: string, places: TokenPlaces = {}): Pick<ModelSources, 'path' | 'hubCache' | 'hub'> {
  const { paths = {}, ...others } = places
  return { ...others, path: Object.hasOwn(paths, model) ? paths[model] : others.path }
}

/** Where Hugging Face tools keep their cache when `HF_HUB_CACHE` does not say. */
function defaultHubCache({ HF_HOME: home, XDG_CACHE_HOME: cache }: Env): string {
  return join(home ?? join(cache ?? join(homedir(), '.cache'), 'huggingface'), 'hub')
}
