/** Downloads a model's tokenizer files from a hub into a cache folder laid out as Hugging Face tools lay it out. */
import { randomUUID } from 'node:crypto'
import { mkdir, rename, rm, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { WarmrouteError } from '../../core/protocol/index.js'
import type { Fetched, FetchOptions } from './fetch-bytes.js'
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
  { name: 'added_tokens.json', isNeeded: false },
  { name: 'chat_template.jinja', isNeeded: false },
  { name: 'chat_template.json', isNeeded: false },
  { name: 'processor_config.json', isNeeded: false }, // may hold a template
  { name: 'additional_chat_templates/tool_use.jinja', isNeeded: false }, // of named templates the one that a chat may take
  { name: 'config.json', isNeeded: false }, // how many ids the model has, and its type
  { name: 'tokenizer.json', isNeeded: true }, // last: a folder with it is complete
]
/** The names of all files of the repository, also of those that are not downloaded: they tell how engines render (`own-renderers.ts`). */
export const namesFile = 'names-of-all-files.json'
const namesMax = 100_000
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
  const at = hub.endpoint.replace(/\/+$/, '')
  const options = {
    bytesMax: fileBytesMax,
    deadlineMs: hub.deadlineMs ?? deadlineMsDefault,
    signal,
    headers: hub.token ? { authorization: `Bearer ${hub.token}` } : undefined,
  }
  for (const { name, isNeeded } of files) {
    if (isNeeded) await keepNames(`${at}/api/models/${model}/revision/${commit ?? revision}`, folder, options)
    const url = `${at}/${model}/resolve/${commit ?? revision}/${name}`
    const { status, bytes, headers } = await fetchBytes(url, options)
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

/** A mirror of files alone does not tell: then what was downloaded is all that is known. */
async function keepNames(url: string, folder: string, options: FetchOptions): Promise<void> {
  const path = join(folder, namesFile)
  const names = await fetchBytes(url, options)
    .then(readNames)
    .catch(() => undefined)
  options.signal?.throwIfAborted()
  if (names === undefined) await rm(path, { force: true })
  else await writeWhole(path, Buffer.from(JSON.stringify(names)))
}

function readNames({ status, bytes }: Fetched): readonly string[] | undefined {
  if (status !== 200) return undefined
  const { siblings } = JSON.parse(Buffer.from(bytes).toString('utf8')) as { readonly siblings?: unknown }
  if (!Array.isArray(siblings)) return undefined
  const names = (siblings as readonly ({ readonly rfilename?: unknown } | null)[]).map((it) => it?.rfilename)
  return names.slice(0, namesMax).filter((name) => typeof name === 'string')
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
