/** Where the files of a model's tokenizer may lie, in the order in which we look. */
import { WarmrouteError } from '../../core/protocol/index.js'
import type { HubOptions } from './download.js'
import { downloadTokenizer } from './download.js'
import { findInHubCache, hasTokenizer } from './find-folder.js'
import type { SourceName } from './source.js'

export interface ModelFolders {
  /** A folder with the tokenizer files, named by configuration. */
  readonly path?: string | undefined
  /** The model as the engine knows it: a folder, or the name of a repository. Left out: the served name. */
  readonly model?: string | undefined
  /** Cache of Hugging Face tools on this machine. */
  readonly hubCache?: string | undefined
  /** Naming a hub allows downloads. */
  readonly hub?: HubOptions | undefined
}

export interface FoundFolder {
  readonly name: SourceName
  readonly folder: string
}

type Finder = (model: string, folders: ModelFolders, signal?: AbortSignal) => Promise<FoundFolder | undefined>

/** Each looks in one place; one that throws says why its place does not serve. */
export const folderFinders: readonly Finder[] = [configured, modelFolder, hubCache, hub]

async function configured(_: string, { path }: ModelFolders): Promise<FoundFolder | undefined> {
  if (path === undefined) return undefined
  if (await hasTokenizer(path)) return { name: 'configured', folder: path }
  throw new WarmrouteError('WR_TOKENS_BAD_TOKENIZER', {
    reason: 'the configured path has no tokenizer.json',
    folder: path,
  })
}

async function modelFolder(model: string): Promise<FoundFolder | undefined> {
  const isPath = model.startsWith('/') || model.startsWith('./')
  return isPath && (await hasTokenizer(model)) ? { name: 'folder', folder: model } : undefined
}

async function hubCache(model: string, folders: ModelFolders): Promise<FoundFolder | undefined> {
  for (const cache of [folders.hubCache, folders.hub?.cacheFolder]) {
    const folder = cache === undefined ? undefined : await findInHubCache(cache, model, folders.hub?.revision)
    if (folder !== undefined) return { name: 'hub-cache', folder }
  }
  return undefined
}

async function hub(model: string, folders: ModelFolders, signal?: AbortSignal): Promise<FoundFolder | undefined> {
  return folders.hub && { name: 'hub', folder: await downloadTokenizer(model, folders.hub, signal) }
}
