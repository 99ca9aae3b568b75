/** Where the settings allow a model's tokenizer to come from. */
import { homedir } from 'node:os'
import { join } from 'node:path'
import type { ServeConfig } from '../../config/index.js'
import type { ModelSources } from '../../tokens/index.js'

export type TokenPlaces = Pick<ModelSources, 'path' | 'hubCache' | 'hub'>
type Env = Readonly<Record<string, string | undefined>>

export function tokenPlacesOf(config: ServeConfig, env: Env = process.env): TokenPlaces {
  const { tokenizer: path, hubDownload, hubEndpoint: endpoint, hubToken: token } = config
  const hubCache = config.hubCache ?? defaultHubCache(env)
  return { path, hubCache, hub: hubDownload ? { endpoint, cacheFolder: hubCache, token } : undefined }
}

/** Where Hugging Face tools keep their cache when `HF_HUB_CACHE` does not say. */
function defaultHubCache({ HF_HOME: home, XDG_CACHE_HOME: cache }: Env): string {
  return join(home ?? join(cache ?? join(homedir(), '.cache'), 'huggingface'), 'hub')
}
