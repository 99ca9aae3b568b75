/**
 * The ways in which engines may read a model's tokenizer files. Newer ones build some tokenizers anew, by what the files call them; older
 * ones, and those that know a model by its name on a hub, take `tokenizer.json` as it is. Only an engine can say which it does.
 */
import { WarmrouteError } from '../../core/protocol/index.js'
import { builtBy, fits } from '../vocabulary/built-classes.js'
import { engineClassOf, typeOf } from '../vocabulary/engine-class.js'
import type { EncoderPlan, LibraryPlan } from '../vocabulary/plan.js'
import { planEncoder } from '../vocabulary/plan.js'
import { withOlderFiles } from '../vocabulary/special-names.js'
import type { TokenizerConfigFile, TokenizerFile } from '../vocabulary/tokenizer-file.js'
import { whatIsWrongWith } from '../vocabulary/tokenizer-file.js'
import { readJson, readOrNothing } from './read-file.js'

/**
 * `built`: as transformers 5 does; `written`: `tokenizer.json` as it is; `switched`: that too, and what stands around a text goes by the
 * switches of the configuration, as with transformers 4.
 */
export type Reading = 'built' | 'written' | 'switched'

export interface ReadTokenizer {
  readonly file: TokenizerFile
  readonly config: TokenizerConfigFile
  readonly plan: EncoderPlan | LibraryPlan
  /** Why an engine may have another tokenizer, though nothing else is known of it. */
  readonly unsure: string | undefined
}

/** `tokenizer.json` and what stands beside it. */
export interface TokenizerFolder {
  readonly file: TokenizerFile
  readonly config: TokenizerConfigFile
  readonly map: Readonly<Record<string, unknown>> | undefined
  readonly added: Readonly<Record<string, unknown>> | undefined
  /** `config.json`. */
  readonly modelConfig: unknown
}

export function readTokenizerFolder(folder: string): TokenizerFolder {
  const file = readJson(folder, 'tokenizer.json') as TokenizerFile | undefined
  const problem = file === undefined ? 'there is no tokenizer.json' : whatIsWrongWith(file)
  if (file === undefined || problem) throw new WarmrouteError('WR_TOKENS_BAD_TOKENIZER', { reason: problem, folder })
  return {
    file,
    config: recordIn(folder, 'tokenizer_config.json') ?? {},
    map: recordIn(folder, 'special_tokens_map.json'),
    added: recordIn(folder, 'added_tokens.json'),
    modelConfig: readOrNothing(folder, 'config.json'),
  }
}

/** What is no object says nothing. */
function recordIn(folder: string, name: string): Readonly<Record<string, unknown>> | undefined {
  const value = readJson(folder, name)
  const isRecord = typeof value === 'object' && value !== null && !Array.isArray(value)
  return isRecord ? (value as Readonly<Record<string, unknown>>) : undefined
}

/** Throws where no engine makes sense of the files in this way. */
export function readTokenizer(folder: TokenizerFolder, reading: Reading = 'built'): ReadTokenizer {
  const { modelConfig, map, added } = folder
  const { added_tokens: listed } = folder.file
  // Then special tokens are none in a text, not even in a rendered chat; nobody is known to want it.
  if (folder.config['split_special_tokens'] === true)
    throw new Error('it takes special tokens apart (split_special_tokens)')
  const config = withOlderFiles(folder.config, { map, added, listed })
  const written = { file: folder.file, config }
  const plan = planEncoder(folder.file, config, { goesBySwitches: reading === 'switched' })
  if (reading !== 'built') return { ...written, plan, unsure: undefined }
  const { name, unsure } = engineClassOf(folder.config, modelConfig)
  const isGuess = typeOf(modelConfig) === undefined
  if (name === 'file') return { ...written, plan, unsure }
  if (isGuess && !fits(name, folder.file)) return { ...written, plan, unsure: guessed }
  const isListed = Object.hasOwn(folder.config, 'added_tokens_decoder') // nobody reads the older files then
  const isNamed = (key: string): boolean =>
    Object.hasOwn(folder.config, key) || (!isListed && map !== undefined && Object.hasOwn(map, key))
  const built = builtBy(name, written, { isNamed, isListed })
  const itsPlan = planEncoder(built.file, built.config)
  const mayDiffer = isGuess && JSON.stringify(itsPlan) !== JSON.stringify(plan)
  return { ...built, plan: itsPlan, unsure: mayDiffer ? guessed : unsure }
}

const guessed = 'there is no config.json beside it with the type of the model, by which engines may read it otherwise'

/** The other ways, each that would make other tokens than those before it. */
export function otherReadings(folder: TokenizerFolder, reading: Reading): readonly Reading[] {
  const seen = new Set([spell(folder, reading)])
  return (['written', 'switched'] as const).filter((other) => {
    const spelled = spell(folder, other)
    return spelled !== undefined && !seen.has(spelled) && seen.add(spelled)
  })
}

function spell(folder: TokenizerFolder, reading: Reading): string | undefined {
  try {
    return JSON.stringify(readTokenizer(folder, reading).plan)
  } catch {
    return undefined
  }
}
