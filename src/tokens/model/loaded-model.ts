/** A model's tokenizer files, read and prepared: plain data that threads hand to each other, most of it shared and not copied. */
import { readdirSync } from 'node:fs'
import { WarmrouteError } from '../../core/protocol/index.js'
import type { ParsedTemplate } from '../chat/chat-template.js'
import { LibraryTokenizer } from '../encode/library-tokenizer.js'
import type { OwnRenderers } from '../sources/own-renderers.js'
import { namesFile } from '../sources/download.js'
import { isUsuallyEncodedAgain, ownRenderersOf } from '../sources/own-renderers.js'
import { buildVocabulary } from '../vocabulary/build-vocabulary.js'
import { idMaxOf } from '../vocabulary/id-max.js'
import type { EncoderPlan, LibraryPlan } from '../vocabulary/plan.js'
import { specialNamesOf } from '../vocabulary/special-names.js'
import type { TokenizerConfigFile } from '../vocabulary/tokenizer-file.js'
import { specialTokenText } from '../vocabulary/tokenizer-file.js'
import { readOrNothing } from './read-file.js'
import type { Reading, ReadTokenizer } from './readings.js'
import { otherReadings, readTokenizer, readTokenizerFolder } from './readings.js'
import { readTemplates } from './template-files.js'

export interface LoadedModel {
  /** Names this version of the files to the threads; never reused. */
  readonly key: string
  /** JSON of the plan, shared: an added-token list takes longer to copy than to parse once. */
  readonly plan: SharedArrayBuffer
  /** The vocabulary's tables, or nothing where the library encodes. */
  readonly vocabulary: SharedArrayBuffer | undefined
  /** `tokenizer.json` and `tokenizer_config.json` for the library, where it encodes. */
  readonly library: SharedArrayBuffer | undefined
  /** Why an engine may have another tokenizer, so that no tokens are proven until it says that it has not. */
  readonly unsure: string | undefined
  /** Other ways to read the files, each of which would make other tokens. */
  readonly otherReadings: readonly Reading[]
  readonly templates: readonly ParsedTemplate[]
  /** Why a template could not be used, if so. */
  readonly templateProblem: string | undefined
  readonly specials: Readonly<Record<string, string>>
  /** The highest token id that the model has, where the files tell. */
  readonly idMax: number | undefined
  /** Chats that engines render by code of their own. */
  readonly ownRenderers: OwnRenderers
  /** SGLang encodes the model's chats again, as they are or if it was told to; undefined: it does not. */
  readonly isEncodedAgain?: boolean | undefined
}

/** Reads a folder with `tokenizer.json` (or `tokenizer.json.gz`), `tokenizer_config.json`, `config.json` and templates. Slow: for a thread. */
export function loadModel(folder: string, key: string, reading: Reading = 'built'): LoadedModel {
  const files = readTokenizerFolder(folder)
  const { modelConfig } = files
  const { built, read } = buildOrRefuse(folder, () => {
    const it = readTokenizer(files, reading)
    return { read: it, built: build(it) }
  })
  const { file, config, unsure } = read
  const names = namesOf(folder)
  const { templates, problem: templateProblem } = readTemplates(folder, names, config)
  return {
    key,
    plan: share(JSON.stringify(built.plan)),
    vocabulary: built.vocabulary,
    library: built.vocabulary ? undefined : share(JSON.stringify([file, config])),
    unsure,
    otherReadings: otherReadings(files, reading),
    templates,
    templateProblem,
    specials: specialsOf(config),
    idMax: idMaxOf(file, config, modelConfig),
    ownRenderers: ownRenderersOf(modelConfig, names, templates[0]?.source),
    isEncodedAgain: isUsuallyEncodedAgain(modelConfig),
  }
}

export function readShared(buffer: SharedArrayBuffer): string {
  return new TextDecoder().decode(new Uint8Array(buffer).slice())
}

function share(text: string): SharedArrayBuffer {
  const bytes = new TextEncoder().encode(text)
  const buffer = new SharedArrayBuffer(bytes.length)
  new Uint8Array(buffer).set(bytes)
  return buffer
}

interface Built {
  readonly plan: EncoderPlan | LibraryPlan
  readonly vocabulary: SharedArrayBuffer | undefined
}

/** A file may have any shape inside, and what stumbles over it says so in words of its own. */
function buildOrRefuse<It>(folder: string, build: () => It): It {
  try {
    return build()
  } catch (cause) {
    const reason = `tokenizer.json cannot be used: ${cause instanceof Error ? cause.message : String(cause)}`
    throw new WarmrouteError('WR_TOKENS_BAD_TOKENIZER', { reason, folder }, { cause })
  }
}

function build({ file, config, plan }: ReadTokenizer): Built {
  const vocabulary = plan.kind === 'library' ? plan.reason : buildVocabulary(file.model, plan.kind)
  if (typeof vocabulary !== 'string') return { plan, vocabulary: vocabulary.buffer }
  new LibraryTokenizer(file, config) // now: a source that comes after this one may serve where the library does not
  const { specialsBefore, specialsAfter, specialsBut } = plan
  const specials = { specialsBefore, specialsAfter, specialsBut }
  return { plan: { kind: 'library', reason: vocabulary, ...specials }, vocabulary: undefined }
}

/** `bos_token` and the like, and those that a model names itself. */
function specialsOf(config: TokenizerConfigFile): Readonly<Record<string, string>> {
  const { named } = specialNamesOf(config)
  return Object.fromEntries(Object.entries(named).map(([name, entry]) => [name, specialTokenText(entry)!]))
}

/** Of its files, and of those that the hub has beside what was downloaded. */
function namesOf(folder: string): readonly string[] {
  const others = readOrNothing(folder, namesFile)
  return [...new Set([...readdirSync(folder), ...(Array.isArray(others) ? (others as readonly string[]) : [])])]
}
