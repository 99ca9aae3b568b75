/** Downloads a model's tokenizer files from a hub into a cache folder laid out as Hugging Face tools lay it out. */
import { randomUUID } from 'node:crypto'
import { mkdir, rename, rm, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { WarmrouteError } from '../../core/protocol/index.js'
import { fetchBytes } from './fetch-bytes.js'
import { hubFolderName, isRepositoryName } from './find-folder.js'

export interface HubOptions {
  /** Address of the hub, such as `https://huggingface.co`. Naming one allows downloads. */
  readonly endpoint: string
  readonly cacheFolder: string
  readonly revision?: string | undefined
  readonly token?: string | undefined
  readonly deadlineMs?: number | undefined
}

const files: readonly { readonly name: string; readonly isNeeded: boolean }[] = [
  { name: 'tokenizer_config.json', isNeeded: false },
  { name: 'special_tokens_map.json', isNeeded: false },
  { name: 'chat_template.jinja', isNeeded: false },
  { name: 'chat_template.json', isNeeded: false },
  { name: 'additional_chat_templates/tool_use.jinja', isNeeded: false }, // of named templates the one that a chat may take
  { name: 'config.json', isNeeded: false }, // how many ids the model has
  { name: 'tokenizer.json', isNeeded: true }, // last: a folder with it is complete
]
const fileBytesMax = 64 << 20
const deadlineMsDefault = 60_000

/** The folder with the files. Half a download is never taken for a whole one. */
export async function downloadTokenizer(model: string, hub: HubOptions, signal?: AbortSignal): Promise<string> {
  const revision = hub.revision ?? 'main'
  if (!isRepositoryName(model) || !/^[\w.-]+$/.test(revision)) {
    throw new WarmrouteError('WR_TOKENS_SOURCE_FAILED', { reason: 'no name of a repository', model, revision })
  }
  const folder = join(hub.cacheFolder, hubFolderName(model), 'snapshots', revision)
  await mkdir(folder, { recursive: true })
  // A branch may move on between two files: what comes after the first is taken from the commit that it was of.
  let commit: string | undefined
  for (const { name, isNeeded } of files) {
    const url = `${hub.endpoint.replace(/\/+$/, '')}/${model}/resolve/${commit ?? revision}/${name}`
    const { status, bytes, headers } = await fetchBytes(url, {
      bytesMax: fileBytesMax,
      deadlineMs: hub.deadlineMs ?? deadlineMsDefault,
      signal,
      headers: hub.token ? { authorization: `Bearer ${hub.token}` } : undefined,
    })
    commit ??= /^[0-9a-f]{40}$/.exec(headers.get('x-repo-commit') ?? '')?.[0]
    if (status === 404 && !isNeeded) {
      await rm(join(folder, name), { force: true }) // of a download that did not come to its end
      continue
    }
    if (status !== 200)
      throw new WarmrouteError('WR_TOKENS_SOURCE_FAILED', { reason: `the hub answered ${status}`, url })
    await writeWhole(join(folder, name), bytes)
  }
  return folder
}

/** A file that is there is whole. Others may write the same one meanwhile: for another model, or in another process. */
async function writeWhole(path: string, bytes: Uint8Array): Promise<void> {
  const part = `${path}.${randomUUID()}.part`
  try {
    await mkdir(dirname(path), { recursive: true })
    await writeFile(part, bytes)
    await rename(part, path)
  } catch (error) {
    await rm(part, { force: true })
    throw error
  }
}
