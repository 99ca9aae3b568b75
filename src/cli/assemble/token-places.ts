/** Where the settings allow a model's tokenizer to come from. */
import { join } from 'node:path'
import type { ServeConfig } from '../../config/index.js'
import { WarmrouteError } from '../../core/protocol/index.js'
import type { ModelSources } from '../../tokens/index.js'
import { hasTokenizer } from '../../tokens/index.js'
import { homeFolder } from '../home.js'

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
    hub: hubDownload ? { endpoint, cacheFolder: requireCache(hubCache), token } : undefined,
  }
}

/** Throws `WR_INVALID_CONFIG`. */
function requireCache(folder: string | undefined): string {
  if (folder !== undefined) return folder
  const reason =
    'hub_download needs a place to keep what it fetches, and there is no home folder: name one with --hub-cache'
  throw new WarmrouteError('WR_INVALID_CONFIG', { reason })
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
function defaultHubCache({ HF_HOME: named, XDG_CACHE_HOME: cache }: Env): string | undefined {
  if (named !== undefined) return join(named, 'hub')
  const home = homeFolder()
  const caches = cache ?? (home && join(home, '.cache'))
  return caches && join(caches, 'huggingface', 'hub')
}
