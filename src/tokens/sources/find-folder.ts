/** Looks for a model's tokenizer files on this machine: a folder, or the cache that Hugging Face tools keep. */
import { access, readdir, readFile, stat } from 'node:fs/promises'
import { join } from 'node:path'

/** `owner/name` or `name`; what else a model may be called is never put into a path or an address. */
const repositoryPattern = /^[A-Za-z0-9][\w.-]*(?:\/[A-Za-z0-9][\w.-]*)?$/

export function isRepositoryName(model: string): boolean {
  return repositoryPattern.test(model) && !model.includes('..')
}

/** Whether a folder holds a tokenizer that we can read. */
export async function hasTokenizer(folder: string): Promise<boolean> {
  return (await exists(join(folder, 'tokenizer.json'))) || (await exists(join(folder, 'tokenizer.json.gz')))
}

/**
 * The snapshot that the cache of Hugging Face tools has for a model, if any. One that is asked for by its revision is that one and no
 * other; else it is the main one, else the newest.
 */
export async function findInHubCache(
  cacheFolder: string,
  model: string,
  revision: string | undefined,
): Promise<string | undefined> {
  if (!isRepositoryName(model)) return undefined
  const repository = join(cacheFolder, hubFolderName(model))
  const asked = revision ?? 'main'
  const named = await readFile(join(repository, 'refs', asked), 'utf8').catch(() => asked)
  const snapshots = join(repository, 'snapshots')
  const others = revision === undefined ? await newestFirst(snapshots) : []
  for (const snapshot of [named.trim(), ...others]) {
    if (!/^[\w.-]+$/.test(snapshot) || snapshot.startsWith('.')) continue
    const folder = join(snapshots, snapshot)
    if (await hasTokenizer(folder)) return folder
  }
  return undefined
}

async function newestFirst(folder: string): Promise<string[]> {
  const names = await readdir(folder).catch(() => [])
  const dated = await Promise.all(
    names.map(async (name) => ({ name, at: (await stat(join(folder, name)).catch(() => undefined))?.mtimeMs ?? 0 })),
  )
  return dated.sort((a, b) => b.at - a.at || (a.name < b.name ? -1 : 1)).map(({ name }) => name)
}

export function hubFolderName(model: string): string {
  return `models--${model.replaceAll('/', '--')}`
}

async function exists(path: string): Promise<boolean> {
  return access(path).then(
    () => true,
    () => false,
  )
}
